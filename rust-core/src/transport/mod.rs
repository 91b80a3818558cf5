//! How frames travel. Each transport connects or accepts and moves bytes; none of them knows what
//! a frame means.

mod endpoint;
pub(crate) mod pump;
pub(crate) mod tcp;

pub use endpoint::{Endpoint, Host, Scheme};
pub use tcp::SocketOptions;
