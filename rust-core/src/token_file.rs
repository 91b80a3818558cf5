//! A file with an access token, for clients and servers.
//!
//! Owns reading it, and noticing cheaply that it has changed. What of its text is the token is said
//! by [`token_of_file`].

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::security::token_of_file;

/// Longest file that is read, in bytes: no token is longer.
const LONGEST: u64 = 64 * 1024;

/// A file that was written to this shortly before it was read may be written to again without a
/// change of its time: file systems count in steps, the coarsest of two seconds.
const STEP: Duration = Duration::from_secs(3);

/// See the [module](self).
pub(crate) struct TokenFile {
    path: PathBuf,
    known: Mutex<Option<Known>>,
}

/// What was read last.
struct Known {
    token: String,
    stamp: Stamp,
    /// It was old enough when it was read: another write will show in its stamp.
    settled: bool,
}

/// What of a file changes when it is written to or replaced.
#[derive(PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    size: u64,
    /// Number of the file on its device, and when that entry was changed, in ns (Unix).
    entry: (u64, i128),
}

impl Stamp {
    fn of(data: &std::fs::Metadata) -> std::io::Result<Self> {
        #[cfg(unix)]
        let entry = {
            use std::os::unix::fs::MetadataExt;
            let changed = i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec());
            (data.ino(), changed)
        };
        #[cfg(not(unix))]
        let entry = (0, 0);
        Ok(Self {
            modified: data.modified()?,
            size: data.len(),
            entry,
        })
    }
}

impl TokenFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            known: Mutex::new(None),
        }
    }

    /// Reads the token.
    pub(crate) fn read(&self) -> Result<String, String> {
        Ok(self.load()?.token)
    }

    /// Hands the token to `look`, having read it anew if the file may have changed.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&str) -> R) -> Result<R, String> {
        let mut known = self.known.lock();
        // Dropped first: what can't be read any more is worth nothing.
        if let Some(same) = known.take().filter(|known| known.settled)
            && self.stamp()? == same.stamp
        {
            *known = Some(same);
        }
        let known = match &mut *known {
            Some(known) => known,
            none => none.insert(self.load()?),
        };
        Ok(look(&known.token))
    }

    fn stamp(&self) -> Result<Stamp, String> {
        let data = std::fs::metadata(&self.path).map_err(|e| self.failed(&e))?;
        Stamp::of(&data).map_err(|e| self.failed(&e))
    }

    fn load(&self) -> Result<Known, String> {
        // To open a pipe would wait for somebody who writes into it.
        let data = std::fs::metadata(&self.path).map_err(|e| self.failed(&e))?;
        if !data.is_file() {
            return Err(self.failed(&"it is no regular file"));
        }
        let mut file = File::open(&self.path).map_err(|e| self.failed(&e))?;
        // Taken before the text: what is written after it shows in the next one.
        let data = file.metadata().map_err(|e| self.failed(&e))?;
        let stamp = Stamp::of(&data).map_err(|e| self.failed(&e))?;
        let age = SystemTime::now().duration_since(stamp.modified);
        let mut bytes = Vec::new();
        let read = (&mut file).take(LONGEST + 1).read_to_end(&mut bytes);
        read.map_err(|e| self.failed(&e))?;
        if bytes.len() as u64 > LONGEST {
            return Err(self.failed(&format!("it has more than {LONGEST} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|_| self.failed(&"it is not UTF-8"))?;
        let token = token_of_file(&text).ok_or_else(|| self.failed(&"it is empty"))?;
        Ok(Known {
            token: token.to_owned(),
            stamp,
            settled: age.is_ok_and(|age| age > STEP),
        })
    }

    fn failed(&self, what: &dyn std::fmt::Display) -> String {
        format!("can't read the token from {}: {what}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of its own, gone at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("witrpc-token-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn write(&self, text: &[u8]) {
            std::fs::write(&self.0, text).unwrap();
        }

        /// Makes it look as if it had been written long ago.
        fn age(&self) {
            let file = File::options().write(true).open(&self.0).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60))
                .unwrap();
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn token(file: &TokenFile) -> String {
        file.with(str::to_owned).unwrap()
    }

    #[test]
    fn every_change_is_noticed_also_one_of_the_same_length_at_once() {
        let scratch = Scratch::new("changes");
        let file = TokenFile::new(scratch.0.clone());
        for n in 0..200 {
            scratch.write(format!("token {n:03}\n").as_bytes());
            assert_eq!(token(&file), format!("token {n:03}"));
            assert_eq!(file.read().unwrap(), format!("token {n:03}"));
        }
        scratch.age();
        token(&file);
        assert!(file.known.lock().as_ref().unwrap().settled);
        scratch.write(b"token new\n");
        assert_eq!(token(&file), "token new");
    }

    #[test]
    fn a_file_that_did_not_change_is_not_read_again() {
        let scratch = Scratch::new("same");
        scratch.write(b"secret");
        scratch.age();
        let file = TokenFile::new(scratch.0.clone());
        assert_eq!(token(&file), "secret");
        // Nobody else can know this: it is what it remembers.
        file.known.lock().as_mut().unwrap().token = "remembered".into();
        assert_eq!(token(&file), "remembered");
        assert_eq!(file.read().unwrap(), "secret");
    }

    #[test]
    fn what_holds_no_token_is_an_error_and_the_old_token_is_forgotten() {
        let scratch = Scratch::new("bad");
        let file = TokenFile::new(scratch.0.clone());
        let error = |file: &TokenFile| file.with(|_| ()).unwrap_err();
        assert!(error(&file).contains("can't read the token from"));
        for (text, what) in [
            (&b""[..], "it is empty"),
            (b" \n", "it is empty"),
            (b"\xff\xfe", "it is not UTF-8"),
            (&[b'x'; 65 * 1024], "it has more than 65536 bytes"),
        ] {
            scratch.write(b"good");
            assert_eq!(token(&file), "good");
            scratch.write(text);
            assert!(error(&file).ends_with(what), "{}", error(&file));
            assert!(file.read().unwrap_err().ends_with(what));
        }
        scratch.write(b"good");
        assert_eq!(token(&file), "good");
        std::fs::remove_file(&scratch.0).unwrap();
        assert!(error(&file).contains(&*scratch.0.to_string_lossy()));
    }
}
