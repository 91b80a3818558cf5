//! Named pipes, where .NET puts them: a Unix domain socket in the folder for temporary files, or a
//! named pipe of Windows.

#[cfg(unix)]
pub(super) mod unix {
    use std::io;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    use parking_lot::Mutex;
    use tokio::net::{UnixListener, UnixStream};

    /// Where .NET has the socket of a pipe: an absolute name is the path itself.
    pub(in super::super) fn path(name: &str) -> PathBuf {
        if name.starts_with('/') {
            return PathBuf::from(name);
        }
        let folder = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty());
        let folder = folder.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        folder.join(format!("CoreFxPipe_{name}"))
    }

    pub(in super::super) async fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect(path(name)).await
    }

    /// A listening socket; its file goes with it.
    pub(in super::super) struct Listener {
        pub(in super::super) socket: UnixListener,
        path: PathBuf,
        /// Which file is ours: another server may have replaced it meanwhile. `None` once it is gone.
        inode: Mutex<Option<u64>>,
    }

    impl Listener {
        /// Nobody finds it any more. Not by shutting the socket down: that leaves it readable for
        /// ever with nothing to accept, and whoever accepts would never stop to try.
        pub(in super::super) fn hide(&self) {
            if let Some(ours) = self.inode.lock().take()
                && inode(&self.path) == Some(ours)
            {
                let _ = std::fs::remove_file(&self.path);
            }
        }
    }

    impl Drop for Listener {
        fn drop(&mut self) {
            self.hide();
        }
    }

    fn inode(path: &Path) -> Option<u64> {
        Some(std::fs::symlink_metadata(path).ok()?.ino())
    }

    /// Listens. A socket file that nobody listens on any more is replaced; one that is in use is
    /// not.
    pub(in super::super) async fn listen(name: &str, mode: u32) -> io::Result<Listener> {
        let path = path(name);
        remove_stale(&path).await?;
        // The file must not be there with other permissions for a moment.
        let hidden = path.with_extension(format!("{:x}", rand::random::<u64>()));
        let socket = UnixListener::bind(&hidden)?;
        let shown = std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(mode))
            .and_then(|()| std::fs::rename(&hidden, &path));
        if let Err(error) = shown {
            let _ = std::fs::remove_file(&hidden);
            return Err(error);
        }
        let inode = Mutex::new(inode(&path));
        Ok(Listener {
            socket,
            path,
            inode,
        })
    }

    async fn remove_stale(path: &Path) -> io::Result<()> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {}
            Ok(_) => return Err(io::Error::other("there is a file that is not a socket")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        match UnixStream::connect(path).await {
            Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)
            }
            Err(error) => Err(error),
        }
    }
}

/// Compiled and checked, but never run: there is no Windows among the machines that test this.
#[cfg(windows)]
pub(super) mod windows {
    use std::io;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use tokio::io::ReadBuf;
    use tokio::net::windows::named_pipe::{
        ClientOptions, NamedPipeClient, NamedPipeServer, PipeMode, ServerOptions,
    };

    /// All instances of a pipe are busy.
    const ERROR_PIPE_BUSY: i32 = 231;
    const PAUSE: Duration = Duration::from_millis(50);

    enum Pipe {
        Client(NamedPipeClient),
        Server(NamedPipeServer),
    }

    pub(in super::super) struct ReadHalf(Arc<Pipe>);
    pub(in super::super) struct WriteHalf(Arc<Pipe>);

    impl ReadHalf {
        pub(in super::super) fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            loop {
                ready!(match &*self.0 {
                    Pipe::Client(pipe) => pipe.poll_read_ready(cx),
                    Pipe::Server(pipe) => pipe.poll_read_ready(cx),
                })?;
                let unfilled = buffer.initialize_unfilled();
                let read = match &*self.0 {
                    Pipe::Client(pipe) => pipe.try_read(unfilled),
                    Pipe::Server(pipe) => pipe.try_read(unfilled),
                };
                match read {
                    Ok(n) => {
                        buffer.advance(n);
                        return Poll::Ready(Ok(()));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // The other end is gone: that is the end of the stream.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        return Poll::Ready(Ok(()));
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        }
    }

    impl WriteHalf {
        pub(in super::super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
            match &*self.0 {
                Pipe::Client(pipe) => pipe.try_write(bytes),
                Pipe::Server(pipe) => pipe.try_write(bytes),
            }
        }

        pub(in super::super) async fn writable(&self) -> io::Result<()> {
            match &*self.0 {
                Pipe::Client(pipe) => pipe.writable().await,
                Pipe::Server(pipe) => pipe.writable().await,
            }
        }
    }

    fn halves(pipe: Pipe) -> (ReadHalf, WriteHalf) {
        let pipe = Arc::new(pipe);
        (ReadHalf(pipe.clone()), WriteHalf(pipe))
    }

    fn path(name: &str) -> String {
        format!(r"\\.\pipe\{name}")
    }

    /// Connects, waiting while all instances are busy; the caller limits the time.
    pub(in super::super) async fn connect(name: &str) -> io::Result<(ReadHalf, WriteHalf)> {
        loop {
            match ClientOptions::new().open(path(name)) {
                Ok(pipe) => return Ok(halves(Pipe::Client(pipe))),
                Err(error) if error.raw_os_error() == Some(ERROR_PIPE_BUSY) => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One instance waits for a client; the next one is made when it has come.
    pub(in super::super) struct Listener {
        name: String,
        next: tokio::sync::Mutex<NamedPipeServer>,
    }

    fn instance(name: &str, is_first: bool) -> io::Result<NamedPipeServer> {
        ServerOptions::new()
            .first_pipe_instance(is_first)
            .pipe_mode(PipeMode::Byte)
            .create(path(name))
    }

    pub(in super::super) async fn listen(name: &str, _mode: u32) -> io::Result<Listener> {
        let next = tokio::sync::Mutex::new(instance(name, true)?);
        Ok(Listener {
            name: name.to_owned(),
            next,
        })
    }

    impl Listener {
        pub(in super::super) async fn accept(&self) -> io::Result<(ReadHalf, WriteHalf)> {
            let mut next = self.next.lock().await;
            next.connect().await?;
            let connected = std::mem::replace(&mut *next, instance(&self.name, false)?);
            Ok(halves(Pipe::Server(connected)))
        }
    }
}
