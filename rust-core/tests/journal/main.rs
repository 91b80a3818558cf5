//! The journal, as a store by itself and under a server: what is known after the process, or a part of a file, is gone.

mod damage;
mod fixture;
mod lives;
mod servers;
