//! The bytes of WitRPC: stream framing, the envelope and its payload models.
//!
//! Owns every layout that a peer can see below the argument codecs, and the MemoryPack
//! primitives they are made of. Knows nothing of sockets, sessions or time.

pub mod memorypack;
