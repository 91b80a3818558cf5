//! The rival of a call over WebSocket: messages of the same size through tokio-tungstenite, on the same
//! kind of runtime and socket.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, accept_async_with_config, client_async_with_config};

use crate::bare::{ANSWER, REQUEST, on_server_thread, runtime};
use crate::figures::Sample;

/// What the length of a frame over TCP takes, and a WebSocket message does not need.
const PREFIX: usize = 4;

/// Small buffers, as ours has them; each message goes out at once.
fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(4096)
        .write_buffer_size(0)
}

/// Answers every message with one of the size of an answer.
async fn serve(stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(mut socket) = accept_async_with_config(stream, Some(config())).await else {
        return;
    };
    let answer = Bytes::from_static(&[7; ANSWER - PREFIX]);
    while let Some(Ok(message)) = socket.next().await {
        if message.is_binary() && socket.send(Message::Binary(answer.clone())).await.is_err() {
            return;
        }
    }
}

/// A client of it.
pub(crate) struct Bare {
    runtime: Runtime,
    socket: WebSocketStream<TcpStream>,
}

impl Bare {
    pub(crate) fn start(threads: usize) -> Self {
        let address = on_server_thread(async |ready| {
            let listener = TcpListener::bind("127.0.0.1:0").await;
            let listener = listener.unwrap_or_else(|e| panic!("can't listen: {e}"));
            let address = listener.local_addr();
            let _ = ready.send(address.unwrap_or_else(|e| panic!("no address: {e}")));
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        let runtime = runtime(threads);
        let socket = runtime.block_on(async {
            let stream = TcpStream::connect(address).await;
            let stream = stream.unwrap_or_else(|e| panic!("can't connect: {e}"));
            let _ = stream.set_nodelay(true);
            let url = format!("ws://{address}/");
            let upgraded = client_async_with_config(url, stream, Some(config())).await;
            upgraded.unwrap_or_else(|e| panic!("no upgrade: {e}")).0
        });
        Self { runtime, socket }
    }

    pub(crate) fn sequential(&mut self, round: Duration) -> Sample {
        let socket = &mut self.socket;
        self.runtime.block_on(async {
            let request = Bytes::from_static(&[1; REQUEST - PREFIX]);
            let mut sample = Sample::default();
            let begin = Instant::now();
            while begin.elapsed() < round {
                let start = Instant::now();
                let _ = socket.send(Message::Binary(request.clone())).await;
                let answer = socket.next().await;
                sample.add(start.elapsed());
                assert!(matches!(answer, Some(Ok(Message::Binary(_)))), "{answer:?}");
            }
            sample
        })
    }
}
