//! The dimensions of the matrix.

use witrpc::codec::Codec;

pub(crate) const CODECS: [Codec; 4] = [
    Codec::Json,
    Codec::MemoryPack,
    Codec::MessagePack,
    Codec::Protobuf,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Tls,
    WebSocket,
    /// WebSocket within TLS, where we are the server.
    Wss,
    Pipe,
}

impl Transport {
    pub(crate) const ALL: [Self; 5] =
        [Self::Tcp, Self::Tls, Self::WebSocket, Self::Wss, Self::Pipe];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::WebSocket => "ws",
            Self::Wss => "wss",
            Self::Pipe => "pipe",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Security {
    pub(crate) encrypted: bool,
    pub(crate) token: bool,
}

impl Security {
    pub(crate) const ALL: [Self; 4] = [
        Self::new(false, false),
        Self::new(false, true),
        Self::new(true, false),
        Self::new(true, true),
    ];

    const fn new(encrypted: bool, token: bool) -> Self {
        Self { encrypted, token }
    }

    pub(crate) fn name(self) -> &'static str {
        match (self.encrypted, self.token) {
            (false, false) => "plain",
            (false, true) => "plain+token",
            (true, false) => "encrypted",
            (true, true) => "encrypted+token",
        }
    }
}

/// The one that servers with a token want.
pub(crate) const TOKEN: &str = "s3cret \u{e9}";

/// One combination.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cell {
    pub(crate) transport: Transport,
    pub(crate) codec: Codec,
    pub(crate) security: Security,
    /// How the types of event arguments are named.
    pub(crate) strong: bool,
    pub(crate) role: Role,
    /// What its values are drawn from.
    pub(crate) seed: u64,
}

impl Cell {
    /// All of them. Those that need the same server of ours are neighbours.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for codec in CODECS {
            for security in Security::ALL {
                for strong in [false, true] {
                    for transport in Transport::ALL {
                        for role in [Role::Client, Role::Server] {
                            if (transport, role) == (Transport::Wss, Role::Client) {
                                continue;
                            }
                            all.push(Self {
                                transport,
                                codec,
                                security,
                                strong,
                                role,
                                seed: all.len() as u64 + 1,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    pub(crate) fn name(&self) -> String {
        format!(
            "{} {} {} {} {}",
            self.transport.name(),
            self.codec,
            self.security.name(),
            if self.strong { "strong" } else { "weak" },
            self.role.name()
        )
    }

    /// The peer's options that both its commands take.
    pub(crate) fn peer_options(&self) -> Vec<&'static str> {
        let mut options = vec!["--codec", self.codec.name()];
        if self.security.encrypted {
            options.push("--encrypt");
        }
        if self.security.token {
            options.extend(["--token", TOKEN]);
        }
        if !self.strong {
            options.push("--weak");
        }
        options
    }

    /// Whether the peer's client makes a call with drawn values too, in a process of its own: once for
    /// each codec, security and form, over changing transports.
    pub(crate) fn has_call(&self) -> bool {
        let column = (self.seed - 1) / (2 * Transport::ALL.len() as u64 - 1);
        Transport::ALL[column as usize % Transport::ALL.len()] == self.transport
    }

    pub(crate) fn token(&self) -> &'static str {
        if self.security.token { TOKEN } else { "" }
    }
}
