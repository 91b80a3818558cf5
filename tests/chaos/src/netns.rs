//! A client, a router and a server, each in a network namespace of its own. The router can lose every
//! packet without a word: neither end is told, and no kernel acknowledges for the other.
//!
//! ```text
//! client 10.201.1.2 ── 10.201.1.1 router 10.201.2.1 ── 10.201.2.2 server
//! ```
//!
//! Needs root and iproute2.

use std::future::Future;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::served::{Scratch, command, launch};
use crate::trace::Trace;
use crate::watch;

/// Address of the server.
pub const SERVER: &str = "10.201.2.2";

/// See the [module](self). Everything is gone with it.
pub struct Network {
    name: String,
}

impl Network {
    /// Builds it; `None` (and a line that says why) where that can't be done.
    pub fn build(test: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            watch::skip(test, "network namespaces need root");
            return None;
        }
        if Command::new("ip").arg("-V").output().is_err() {
            watch::skip(test, "no command `ip`: install iproute2");
            return None;
        }
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let network = Self {
            name: format!("wch{}x{n}", std::process::id()),
        };
        // Root in a container may lack the right to make them.
        if let Err(why) = ip(&["netns", "add", &network.space("c")]) {
            watch::skip(test, &why);
            return None;
        }
        network.set_up().unwrap();
        Some(network)
    }

    fn set_up(&self) -> Result<(), String> {
        let [client, router, server] = ["c", "r", "s"].map(|end| self.space(end));
        for space in [&client, &router, &server] {
            if space != &client {
                ip(&["netns", "add", space])?;
            }
            ip(&["-n", space, "link", "set", "lo", "up"])?;
        }
        for (space, subnet, device) in [(&client, 1, "toc"), (&server, 2, "tos")] {
            ip(&[
                "-n", space, "link", "add", "end", "type", "veth", "peer", "name", device, "netns",
                &router,
            ])?;
            let gateway = format!("10.201.{subnet}.1");
            let own = format!("10.201.{subnet}.2/24");
            ip(&["-n", space, "addr", "add", &own, "dev", "end"])?;
            ip(&["-n", space, "link", "set", "end", "up"])?;
            ip(&[
                "-n",
                &router,
                "addr",
                "add",
                &format!("{gateway}/24"),
                "dev",
                device,
            ])?;
            ip(&["-n", &router, "link", "set", device, "up"])?;
            ip(&["-n", space, "route", "add", "default", "via", &gateway])?;
        }
        self.forward(true)
    }

    fn space(&self, end: &str) -> String {
        format!("{}{end}", self.name)
    }

    /// With `false` the router swallows every packet, with `true` it passes them on again.
    fn forward(&self, on: bool) -> Result<(), String> {
        self.sysctl("r", "net.ipv4.ip_forward", if on { "1" } else { "0" })
    }

    /// The link loses everything from now on.
    pub fn cut(&self) {
        self.forward(false).unwrap();
    }

    /// The link works again.
    pub fn mend(&self) {
        self.forward(true).unwrap();
    }

    /// Ports that the client's system chooses from for its own end.
    pub fn limit_client_ports(&self, first: u16, last: u16) {
        let range = format!("{first} {last}");
        self.sysctl("c", "net.ipv4.ip_local_port_range", &range)
            .unwrap();
    }

    fn sysctl(&self, end: &str, key: &str, value: &str) -> Result<(), String> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        let write = format!("echo '{value}' > {path}");
        ip(&["netns", "exec", &self.space(end), "sh", "-c", &write])
    }

    /// Starts `witrpc serve --demo` at the server's end.
    pub fn serve(&self, args: &[&str]) -> RemoteServer {
        let scratch = Scratch::new();
        let args: Vec<_> = args.iter().map(|a| (*a).to_owned()).collect();
        let mut inside = Command::new("ip");
        inside
            .args(["netns", "exec", &self.space("s")])
            .arg(command());
        let endpoint = format!("tcp://{SERVER}:5100");
        let child = launch(inside, &endpoint, scratch.path(), &args);
        RemoteServer {
            child,
            endpoint,
            scratch,
        }
    }

    /// Runs a future at the client's end: sockets that it opens are there.
    pub fn run_client<F: Future<Output = ()> + Send>(&self, client: F) {
        let space = PathBuf::from("/run/netns").join(self.space("c"));
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let space = std::fs::File::open(space).unwrap();
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(client);
                runtime.shutdown_timeout(Duration::ZERO);
            });
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        });
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for end in ["c", "r", "s"] {
            let _ = ip(&["netns", "del", &self.space(end)]);
        }
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output();
    let output = output.map_err(|e| format!("ip: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("ip {}: {}", args.join(" "), said.trim()))
}

/// A serving process at the server's end. Killed when it is dropped.
pub struct RemoteServer {
    child: Child,
    endpoint: String,
    scratch: Scratch,
}

impl RemoteServer {
    /// Where it listens, as a client names it.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What it has executed.
    pub fn trace(&self) -> Trace {
        Trace::read(&self.scratch.path().join("trace"))
    }
}

impl Drop for RemoteServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
