//! Ours: real calls of 64 bytes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Runtime;
use witrpc::client::{Client, Service};
use witrpc::server::{Server, ServiceBuilder};
use witrpc::wire::Arguments;

use crate::bare::{on_server_thread, runtime};
use crate::figures::Sample;

/// A JSON string of 64 bytes, quotes included.
const VALUE: &[u8] = b"\"0123456789012345678901234567890123456789012345678901234567890 \"";
const METHOD: &str = "string Echo(string text)";

/// Serves an echo that hands the blob back.
pub(crate) fn start_server() -> String {
    start_server_with("tcp://127.0.0.1:0", false, None)
}

fn start_server_with(endpoint: &'static str, encryption: bool, journal: Option<PathBuf>) -> String {
    on_server_thread(async move |ready| {
        let service = ServiceBuilder::open("Demo.IEcho").handle_blobs(METHOD, |_, blobs| {
            std::future::ready(Ok(blobs.into_iter().next()))
        });
        let server = Server::builder().listen(endpoint).encryption(encryption);
        let server = match journal {
            Some(directory) => server.journal(directory).service(service.all_durable()),
            None => server.service(service),
        };
        let server = server.start().await;
        let server = server.unwrap_or_else(|e| panic!("no server: {e}"));
        let _ = ready.send(server.endpoints()[0].to_string());
        std::future::pending::<()>().await;
    })
}

fn arguments() -> Arguments {
    Arguments::from_blobs(&[VALUE])
}

async fn call(service: &Service, arguments: Arguments) -> Option<Bytes> {
    let answer = service
        .call_encoded::<()>(METHOD, arguments)
        .encoded()
        .await;
    answer.unwrap_or_else(|e| panic!("a call failed: {e}")).data
}

async fn connect(endpoint: &str, encryption: bool) -> Service {
    let client = Client::builder(endpoint)
        .encryption(encryption)
        .build()
        .unwrap_or_else(|e| panic!("{e}"));
    client.connect().await.unwrap_or_else(|e| panic!("{e}"));
    let service = client
        .service("Demo.IEcho")
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(call(&service, arguments()).await.as_deref(), Some(VALUE));
    service
}

/// The async client.
pub(crate) struct Async {
    runtime: Runtime,
    service: Service,
}

impl Async {
    pub(crate) fn start(threads: usize) -> Self {
        Self::start_with(threads, "tcp://127.0.0.1:0", false)
    }

    /// The same, encrypted.
    pub(crate) fn start_encrypted(threads: usize) -> Self {
        Self::start_with(threads, "tcp://127.0.0.1:0", true)
    }

    /// The same over WebSocket.
    pub(crate) fn start_websocket(threads: usize) -> Self {
        Self::start_with(threads, "ws://127.0.0.1:0/", false)
    }

    /// The same with calls that are kept in a journal in this directory.
    pub(crate) fn start_durable(threads: usize, directory: PathBuf) -> Self {
        let endpoint = start_server_with("tcp://127.0.0.1:0", false, Some(directory));
        Self::connect(threads, &endpoint, false)
    }

    fn start_with(threads: usize, endpoint: &'static str, encryption: bool) -> Self {
        let endpoint = start_server_with(endpoint, encryption, None);
        Self::connect(threads, &endpoint, encryption)
    }

    fn connect(threads: usize, endpoint: &str, encryption: bool) -> Self {
        let runtime = runtime(threads);
        let service = runtime.block_on(connect(endpoint, encryption));
        Self { runtime, service }
    }

    pub(crate) fn sequential(&mut self, round: Duration) -> Sample {
        let service = &self.service;
        self.runtime.block_on(async {
            let arguments = arguments();
            let mut sample = Sample::default();
            let begin = Instant::now();
            while begin.elapsed() < round {
                let start = Instant::now();
                call(service, arguments.clone()).await;
                sample.add(start.elapsed());
            }
            sample
        })
    }

    pub(crate) fn pipelined(&mut self, round: Duration, window: usize) -> Sample {
        let service = &self.service;
        self.runtime.block_on(async {
            let begin = Instant::now();
            let tasks: Vec<_> = (0..window)
                .map(|_| {
                    let service = service.clone();
                    tokio::spawn(async move {
                        let arguments = arguments();
                        let mut done = 0_u64;
                        while begin.elapsed() < round {
                            call(&service, arguments.clone()).await;
                            done += 1;
                        }
                        done
                    })
                })
                .collect();
            let mut done = 0;
            for task in tasks {
                done += task.await.unwrap_or(0);
            }
            Sample::of_rate(done, begin.elapsed())
        })
    }
}
