//! The rivals: frames of the same size over the same kind of socket, and nothing else.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::figures::Sample;

/// Size of a request frame of ours with 64 bytes of arguments, and of its answer.
pub(crate) const REQUEST: usize = 4 + 25 + 11 + 4 + 12 + 4 + 4 + 64 + 16 + 16 + 8 + 8;
pub(crate) const ANSWER: usize = 4 + 25 + 5 + 4 + 4 + 64 + 4 + 4;

pub(crate) fn runtime(threads: usize) -> Runtime {
    let built = match threads {
        1 => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build(),
        n => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(n)
            .enable_all()
            .build(),
    };
    built.unwrap_or_else(|e| panic!("no runtime: {e}"))
}

/// Echoes frames: reads what there is, answers every whole request in it with one write.
async fn serve(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut input = vec![0; 64 * 1024];
    let answers = vec![7; 64 * 1024];
    let mut have = 0;
    loop {
        match stream.read(&mut input).await {
            Ok(0) | Err(_) => return,
            Ok(n) => have += n,
        }
        let whole = have / REQUEST;
        have %= REQUEST;
        if whole > 0 && stream.write_all(&answers[..whole * ANSWER]).await.is_err() {
            return;
        }
    }
}

/// A server thread of its own, as every server here has.
pub(crate) fn on_server_thread<T: Send + 'static>(
    serve: impl AsyncFnOnce(std::sync::mpsc::Sender<T>) + Send + 'static,
) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || runtime(1).block_on(serve(sender)));
    receiver.recv().unwrap_or_else(|e| panic!("no server: {e}"))
}

pub(crate) fn start_server() -> std::net::SocketAddr {
    on_server_thread(async |ready| {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.unwrap_or_else(|e| panic!("can't listen: {e}"));
        let address = listener.local_addr();
        let _ = ready.send(address.unwrap_or_else(|e| panic!("no address: {e}")));
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    })
}

/// A tokio client.
pub(crate) struct Async {
    runtime: Runtime,
    stream: TcpStream,
}

impl Async {
    pub(crate) fn start(threads: usize) -> Self {
        let address = start_server();
        let runtime = runtime(threads);
        let stream = runtime.block_on(TcpStream::connect(address));
        let stream = stream.unwrap_or_else(|e| panic!("can't connect: {e}"));
        let _ = stream.set_nodelay(true);
        Self { runtime, stream }
    }

    pub(crate) fn sequential(&mut self, round: Duration) -> Sample {
        let stream = &mut self.stream;
        self.runtime.block_on(async {
            let (request, mut answer) = ([1; REQUEST], [0; ANSWER]);
            let mut sample = Sample::default();
            let begin = Instant::now();
            while begin.elapsed() < round {
                let start = Instant::now();
                let _ = stream.write_all(&request).await;
                let _ = stream.read_exact(&mut answer).await;
                sample.add(start.elapsed());
            }
            sample
        })
    }

    /// Keeps `window` requests on their way: as many new ones go out in one write as answers came
    /// in one read.
    pub(crate) fn pipelined(&mut self, round: Duration, window: usize) -> Sample {
        let stream = &mut self.stream;
        self.runtime.block_on(async {
            let requests = vec![1; REQUEST * window];
            let mut answers = vec![0; 64 * 1024];
            let (mut done, mut have) = (0, 0);
            let begin = Instant::now();
            let _ = stream.write_all(&requests).await;
            while begin.elapsed() < round {
                have += stream.read(&mut answers).await.unwrap_or(0);
                let whole = have / ANSWER;
                have %= ANSWER;
                done += whole as u64;
                let _ = stream.write_all(&requests[..whole * REQUEST]).await;
            }
            let time = begin.elapsed();
            let mut left = window * ANSWER - have;
            while left > 0 {
                left -= stream
                    .read(&mut answers[..left.min(64 * 1024)])
                    .await
                    .unwrap_or(left);
            }
            Sample::of_rate(done, time)
        })
    }
}
