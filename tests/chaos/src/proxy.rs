//! A TCP proxy that makes trouble: toxics as toxiproxy has them, changed while connections run.
//!
//! Owns connections and their tasks. What happens at random is drawn from a seed and the number of
//! the connection, so that the same bytes meet the same trouble.

mod pump;
mod toxics;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use self::pump::Link;
pub use self::toxics::{End, Limit, Slicer, Toxic, Toxics};
use crate::port::ReservedPort;

/// A proxy in front of one server. Dropping it drops its connections.
pub struct Proxy {
    shared: Arc<Shared>,
    port: ReservedPort,
    listening: Mutex<Option<JoinHandle<()>>>,
}

type Plan = Box<dyn FnMut(u64, &mut StdRng) -> Toxics + Send>;

struct Shared {
    upstream: Mutex<SocketAddr>,
    seed: u64,
    toxics: Mutex<Toxics>,
    plan: Mutex<Option<Plan>>,
    links: Mutex<HashMap<u64, Arc<Link>>>,
    accepted: AtomicU64,
}

impl Proxy {
    /// Starts one without toxics. Inside a tokio runtime.
    pub fn start(upstream: SocketAddr, seed: u64) -> Self {
        let proxy = Self {
            shared: Arc::new(Shared {
                upstream: Mutex::new(upstream),
                seed,
                toxics: Mutex::default(),
                plan: Mutex::default(),
                links: Mutex::default(),
                accepted: AtomicU64::new(0),
            }),
            port: ReservedPort::new(),
            listening: Mutex::default(),
        };
        proxy.up();
        proxy
    }

    /// Where it listens, as a client names it.
    pub fn endpoint(&self) -> String {
        self.port.endpoint()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Where connections go from now on.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        *self.shared.upstream.lock() = upstream;
    }

    /// The toxics of all connections, those that are open included.
    pub fn set(&self, toxics: Toxics) {
        *self.shared.toxics.lock() = toxics.clone();
        for link in self.shared.links.lock().values() {
            link.set(toxics.clone());
        }
    }

    /// Gives each new connection toxics of its own, by its number from 0.
    pub fn plan(&self, plan: impl FnMut(u64, &mut StdRng) -> Toxics + Send + 'static) {
        *self.shared.plan.lock() = Some(Box::new(plan));
    }

    /// Ends all open connections.
    pub fn cut(&self, end: End) {
        for link in self.shared.links.lock().values() {
            link.end(end);
        }
    }

    /// Connections are refused from now on, and open ones are reset.
    pub async fn down(&self) {
        let task = self.listening.lock().take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
        self.cut(End::Reset);
    }

    /// Connections are accepted from now on.
    pub fn up(&self) {
        let listener = self.port.listen();
        let shared = self.shared.clone();
        let task = tokio::spawn(async move {
            loop {
                if let Ok((client, _)) = listener.accept().await {
                    let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(shared.clone(), number, client));
                }
            }
        });
        *self.listening.lock() = Some(task);
    }

    /// Connections ever accepted.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.shared.links.lock().len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(task) = self.listening.lock().take() {
            task.abort();
        }
        self.cut(End::Reset);
    }
}

/// The life of one connection.
async fn serve(shared: Arc<Shared>, number: u64, client: TcpStream) {
    let mut rng = StdRng::seed_from_u64(shared.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let toxics = match shared.plan.lock().as_mut() {
        Some(plan) => plan(number, &mut rng),
        None => shared.toxics.lock().clone(),
    };
    let upstream = *shared.upstream.lock();
    let Ok(server) = TcpStream::connect(upstream).await else {
        // As toxiproxy: the client finds its connection closed.
        return;
    };
    let link = Arc::new(Link::new(client, server, toxics));
    shared.links.lock().insert(number, link.clone());
    let end = link.run(rng).await;
    shared.links.lock().remove(&number);
    if let Ok(link) = Arc::try_unwrap(link) {
        finish(link, end).await;
    }
}

/// Closes both sockets as wanted.
async fn finish(link: Link, end: End) {
    let (client, server) = link.into_sockets();
    match end {
        End::Reset => {
            for socket in [&client, &server] {
                let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
            }
        }
        End::Close => {
            // A socket that is closed with unread bytes would be reset: read them first.
            let both = async { tokio::join!(pump::farewell(&client), pump::farewell(&server)) };
            let _ = tokio::time::timeout(Duration::from_millis(500), both).await;
        }
    }
}
