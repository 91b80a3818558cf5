//! Tuples as the arguments of calls and events.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Arguments of a call or event as a tuple: `(2, "three")`, `(2,)`, `()`.
pub trait IntoArguments {
    /// The arguments as a JSON array.
    fn into_json(self) -> Result<String>;
}

/// Arguments of a call as a handler takes them: a tuple.
pub trait FromArguments: Sized {
    /// Reads them from a JSON array. The error says which argument does not fit.
    fn from_json(json: &str) -> std::result::Result<Self, serde_json::Error>;
}

impl IntoArguments for () {
    fn into_json(self) -> Result<String> {
        Ok("[]".to_owned())
    }
}

impl FromArguments for () {
    fn from_json(json: &str) -> std::result::Result<Self, serde_json::Error> {
        serde_json::from_str::<[(); 0]>(json).map(|[]| ())
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)+) => {$(
        impl<$($name: Serialize),+> IntoArguments for ($($name,)+) {
            fn into_json(self) -> Result<String> {
                serde_json::to_string(&self)
                    .map_err(|e| Error::invalid_argument(format!("arguments: {e}")))
            }
        }

        impl<$($name: DeserializeOwned),+> FromArguments for ($($name,)+) {
            fn from_json(json: &str) -> std::result::Result<Self, serde_json::Error> {
                serde_json::from_str(json)
            }
        }
    )+};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}
