//! Contracts: method lines, stable names, contract and method ids, type descriptions, and the
//! exchange form `*.witrpc.json`.
//!
//! Owns what a service looks like from outside. It knows nothing of how values are encoded, of
//! sockets or of time; it imports nothing else of the crate.
//!
//! ```
//! use witrpc::contract::Contract;
//!
//! let contract = Contract::open("Demo.IEcho").unwrap();
//! let add = contract.method("int Add(int a, int b)").unwrap();
//! assert_eq!(add.method_id(), 2_843_837_614_665_828_375);
//! ```

mod build;
mod declared;
mod document;
mod framework;
mod generic;
mod id;
mod layouts;
mod lexer;
mod method;
mod names;
mod parse;
mod resolve;
mod scalar;
mod select;
mod syntax;
mod types;
mod whole;

pub use build::ContractError;
pub use declared::{
    DelegateParam, EnumDef, Form, Member, MemberKind, MemoryPackLayout, MessagePackLayout,
    ProtobufField, ProtobufFormat, ProtobufLayout, RecordDef, TypeDef, TypeKind, Types,
};
pub use document::{MemberDecl, TypeDecl};
pub use framework::{Framework, Shape};
pub use id::stable_id;
pub use method::{Event, Method, Param};
pub use names::{NameError, TypeName};
pub use scalar::Scalar;
pub(crate) use select::{may_be, select};
pub use syntax::ParseError;
pub use types::{DeclaredRef, Named, Type};
pub use whole::{Contract, ContractBuilder};
