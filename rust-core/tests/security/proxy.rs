//! Stands between a client and a server, sees every frame, and may do anything to it.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use witrpc::wire::frame;

/// Who sent a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A frame that passes by.
pub(crate) struct Passing {
    /// Which connection, from 0.
    pub(crate) connection: usize,
    pub(crate) from: Side,
    pub(crate) body: BytesMut,
}

/// What is sent on instead of a frame.
type Meddle = Arc<dyn Fn(Passing) -> Vec<BytesMut> + Send + Sync>;

/// Listens, and passes on to `server` what `meddle` makes of it. Returns where.
pub(crate) async fn start(
    server: &str,
    meddle: impl Fn(Passing) -> Vec<BytesMut> + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let server = server.strip_prefix("tcp://").unwrap().to_owned();
    let meddle: Meddle = Arc::new(meddle);
    tokio::spawn(async move {
        for connection in 0.. {
            let (client, _) = listener.accept().await.unwrap();
            let Ok(server) = TcpStream::connect(&server).await else {
                continue;
            };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let pass = |from, input, output| {
                tokio::spawn(pass(connection, from, input, output, meddle.clone()))
            };
            pass(Side::Client, from_client, to_server);
            pass(Side::Server, from_server, to_client);
        }
    });
    endpoint
}

async fn pass(
    connection: usize,
    from: Side,
    mut input: OwnedReadHalf,
    mut output: OwnedWriteHalf,
    meddle: Meddle,
) {
    let mut bytes = BytesMut::new();
    loop {
        while let Some(body) = frame::split(&mut bytes, 1 << 28).unwrap() {
            let passing = Passing {
                connection,
                from,
                body,
            };
            for body in meddle(passing) {
                let mut frame = BytesMut::new();
                frame.put_i32_le(body.len() as i32);
                frame.extend_from_slice(&body);
                if output.write_all(&frame).await.is_err() {
                    return;
                }
            }
        }
        if !matches!(input.read_buf(&mut bytes).await, Ok(1..)) {
            let _ = output.shutdown().await;
            return;
        }
    }
}
