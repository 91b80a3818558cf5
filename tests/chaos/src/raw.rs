//! Ends of a connection that speak the wire by hand, and so can break it anywhere.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use uuid::Uuid;
use witrpc::session::{Call, ClientReceived, ClientSession, ServerReceived, ServerSession, Slot};
use witrpc::wire::extension::Reach;
use witrpc::wire::{Arguments, DEFAULT_MAX_FRAME, Request, Response, frame};

use crate::port::ReservedPort;

/// Accepts connections and does with each what it is told. Notes when they arrived.
pub struct RawServer {
    port: ReservedPort,
    arrivals: Arc<Mutex<Vec<Instant>>>,
    task: JoinHandle<()>,
}

impl RawServer {
    /// Calls `serve` with each connection and its number, from 0. Inside a tokio runtime.
    pub fn start<F, T>(serve: F) -> Self
    where
        F: Fn(usize, TcpStream) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let port = ReservedPort::new();
        let listener: TcpListener = port.listen();
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let seen = arrivals.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = {
                    let mut seen = seen.lock();
                    seen.push(Instant::now());
                    seen.len() - 1
                };
                tokio::spawn(serve(number, stream));
            }
        });
        Self {
            port,
            arrivals,
            task,
        }
    }

    /// Where it listens, as a client names it.
    pub fn endpoint(&self) -> String {
        self.port.endpoint()
    }

    /// When connections arrived.
    pub fn arrivals(&self) -> Vec<Instant> {
        self.arrivals.lock().clone()
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a [`Peer`] says of its memory: it never forgets within a test.
pub const REACH: Reach = Reach {
    epoch: 1,
    hold_ms: 600_000,
    life: None,
};

/// The server's end of one connection.
pub struct Peer {
    /// The socket, for whatever a server should not do.
    pub stream: TcpStream,
    session: ServerSession,
    input: BytesMut,
}

impl Peer {
    /// A connection before its handshake.
    pub fn new(stream: TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            session: ServerSession::new(Uuid::from_u128(1)),
            input: BytesMut::new(),
        }
    }

    /// Accepts whoever comes.
    pub async fn accept(stream: TcpStream) -> io::Result<Self> {
        let mut peer = Self::new(stream);
        peer.handshake(|_| true).await?;
        Ok(peer)
    }

    /// Does the handshake; `accepts` says whether a token is good.
    pub async fn handshake(&mut self, accepts: impl Fn(&str) -> bool) -> io::Result<()> {
        while !self.session.is_authorized() {
            let body = self.frame().await?;
            if let Ok(ServerReceived::Authorize { token, .. }) = self.session.receive(body) {
                let accepted = accepts(&token);
                let refused = self.session.authorize(accepted, Some(REACH)).is_err();
                if refused {
                    self.flush().await?;
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
            }
            self.flush().await?;
        }
        Ok(())
    }

    /// The next request.
    pub async fn request(&mut self) -> io::Result<(Uuid, Request)> {
        loop {
            let body = self.frame().await?;
            if let Ok(ServerReceived::Request(id, request)) = self.session.receive(body) {
                return Ok((id, *request));
            }
        }
    }

    /// The frame of an answer with a JSON result.
    pub fn answer(&mut self, id: Uuid, json: &str) -> Bytes {
        self.respond(
            id,
            &Response::ok(Some(Bytes::copy_from_slice(json.as_bytes()))),
        )
    }

    /// The frame of any response.
    pub fn respond(&mut self, id: Uuid, response: &Response) -> Bytes {
        let mut bytes = Vec::new();
        response.encode(&mut bytes);
        self.session.respond(id, &bytes);
        self.session.take_output().freeze()
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Answers everything with this JSON text until the client is gone.
    pub async fn serve(mut self, json: &str) {
        while let Ok((id, _)) = self.request().await {
            let answer = self.answer(id, json);
            if self.send(&answer).await.is_err() {
                return;
            }
        }
    }

    /// Resets the connection.
    pub fn reset(self) {
        reset(self.stream);
    }

    async fn flush(&mut self) -> io::Result<()> {
        let output = self.session.take_output();
        self.stream.write_all(&output).await
    }

    async fn frame(&mut self) -> io::Result<BytesMut> {
        next_frame(&mut self.stream, &mut self.input).await
    }
}

/// Closes a connection with a reset.
pub fn reset(stream: TcpStream) {
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}

/// Reads until the peer has closed the connection. True if it did so in order.
pub async fn read_to_end(stream: &mut TcpStream) -> bool {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

async fn next_frame(stream: &mut TcpStream, input: &mut BytesMut) -> io::Result<BytesMut> {
    loop {
        match frame::split(input, DEFAULT_MAX_FRAME) {
            Ok(Some(body)) => return Ok(body),
            Ok(None) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        if stream.read_buf(input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The client's end of one connection.
pub struct RawClient {
    /// The socket, for whatever a client should not do.
    pub stream: TcpStream,
    session: ClientSession,
    input: BytesMut,
    serial: u32,
}

impl RawClient {
    /// Connects and does the handshake.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            stream,
            session: ClientSession::new(rand::random(), Uuid::from_u128(rand::random()), ""),
            input: BytesMut::new(),
            serial: 0,
        };
        client.flush().await?;
        while !client.session.is_ready() {
            let body = next_frame(&mut client.stream, &mut client.input).await?;
            client.session.receive(body).map_err(io::Error::other)?;
            client.flush().await?;
        }
        Ok(client)
    }

    /// The first frame that a client sends.
    pub fn hello() -> Bytes {
        ClientSession::new([7; 8], Uuid::from_u128(7), "")
            .take_output()
            .freeze()
    }

    /// The frame of a call, without a number.
    pub fn call(
        &mut self,
        contract_id: i64,
        method_id: i64,
        id: Uuid,
        arguments: &[&str],
    ) -> Bytes {
        self.call_within(None, contract_id, method_id, id, arguments)
    }

    /// The same with the time after which its caller gives up.
    pub fn call_within(
        &mut self,
        remaining: Option<Duration>,
        contract_id: i64,
        method_id: i64,
        id: Uuid,
        arguments: &[&str],
    ) -> Bytes {
        self.serial += 1;
        let slot = Slot {
            index: 0,
            serial: self.serial,
        };
        self.session.request(
            slot,
            &Call {
                method_name: "",
                arguments: &Arguments::from_blobs(arguments),
                types: None,
                invocation_id: id,
                contract_id,
                method_id,
                number: None,
                first_unfinished: 0,
                attempt: None,
                elsewhere: false,
                may_have_come: false,
                remaining,
                trace_context: None,
            },
        );
        self.session.take_output().freeze()
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next answer.
    pub async fn answer(&mut self) -> io::Result<Response> {
        loop {
            let body = next_frame(&mut self.stream, &mut self.input).await?;
            let received = self.session.receive(body).map_err(io::Error::other)?;
            self.flush().await?;
            if let ClientReceived::Answer(_, answer) = received {
                return Ok(answer.map_err(io::Error::other)?.0);
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let output = self.session.take_output();
        self.stream.write_all(&output).await
    }
}
