//! A value, whatever codec it came from or goes to.

use std::sync::Arc;

use uuid::Uuid;

use super::decimal::Decimal;
use super::json::RawJson;
use super::number::Half;
use super::time::{DateOnly, DateTime, DateTimeOffset, TimeOnly, TimeSpan};

/// A value as a tree, independent of any codec. Its .NET type is said elsewhere: the same integer
/// may be an `int` or an enum.
///
/// Integers have the smallest variant that holds them, so that equal numbers are equal values;
/// [`Value::from`] sees to that. Pairs and tuples are lists of their items.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `bool`
    Bool(bool),
    /// Any integer or enum that fits.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// An integer outside the two.
    Int128(Box<i128>),
    /// An integer above `i128::MAX`.
    UInt128(Box<u128>),
    /// `Half`
    Half(Half),
    /// `float`
    Single(f32),
    /// `double`
    Double(f64),
    /// `decimal`
    Decimal(Decimal),
    /// `char`: one UTF-16 unit, perhaps half of a pair.
    Char(u16),
    /// `string`, and `Uri` as its text.
    String(String),
    /// `byte[]`
    Bytes(Vec<u8>),
    /// `Guid`
    Guid(Uuid),
    /// `DateTime`
    DateTime(DateTime),
    /// `DateTimeOffset`
    DateTimeOffset(DateTimeOffset),
    /// `TimeSpan`
    TimeSpan(TimeSpan),
    /// `DateOnly`
    DateOnly(DateOnly),
    /// `TimeOnly`
    TimeOnly(TimeOnly),
    /// `Version`: major, minor, build and revision; a missing one is -1.
    Version([i32; 4]),
    /// An array, collection, pair or tuple. A multi-dimensional array is a list of lists.
    List(Vec<Value>),
    /// A dictionary, in order.
    Map(Vec<(Value, Value)>),
    /// A class or struct.
    Object(Box<Object>),
    /// Any JSON, for `object` and types of which nothing is known.
    Json(RawJson),
}

/// The members of a class or struct.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Object {
    /// The .NET name of the concrete type, where the declared one is a base or an interface.
    pub type_name: Option<Arc<str>>,
    /// Names with values. Decoding gives all declared members, inherited ones first; for encoding
    /// the order does not matter and a missing member has its default.
    pub members: Vec<(Arc<str>, Value)>,
}

impl Object {
    /// The member of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members
            .iter()
            .find(|(member, _)| **member == *name)
            .map(|(_, value)| value)
    }
}

impl Value {
    /// What kind of value it is, for messages: `a string`, `an integer`.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a bool",
            Value::Int(_) | Value::UInt(_) | Value::Int128(_) | Value::UInt128(_) => "an integer",
            Value::Half(_) => "a Half",
            Value::Single(_) => "a float",
            Value::Double(_) => "a double",
            Value::Decimal(_) => "a decimal",
            Value::Char(_) => "a char",
            Value::String(_) => "a string",
            Value::Bytes(_) => "bytes",
            Value::Guid(_) => "a Guid",
            Value::DateTime(_) => "a DateTime",
            Value::DateTimeOffset(_) => "a DateTimeOffset",
            Value::TimeSpan(_) => "a TimeSpan",
            Value::DateOnly(_) => "a DateOnly",
            Value::TimeOnly(_) => "a TimeOnly",
            Value::Version(_) => "a Version",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Object(_) => "an object",
            Value::Json(_) => "JSON",
        }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The integer; `None` for other kinds and for what only a `UInt128` holds.
    pub fn as_i128(&self) -> Option<i128> {
        match self {
            Value::Int(value) => Some((*value).into()),
            Value::UInt(value) => Some((*value).into()),
            Value::Int128(value) => Some(**value),
            _ => None,
        }
    }

    /// The integer as the bits of a `UInt128`, when it is not negative.
    pub(crate) fn as_u128(&self) -> Option<u128> {
        match self {
            Value::UInt128(value) => Some(**value),
            other => other.as_i128().and_then(|value| value.try_into().ok()),
        }
    }
}

impl From<i128> for Value {
    fn from(value: i128) -> Self {
        if let Ok(small) = i64::try_from(value) {
            Value::Int(small)
        } else if let Ok(unsigned) = u64::try_from(value) {
            Value::UInt(unsigned)
        } else {
            Value::Int128(Box::new(value))
        }
    }
}

impl From<u128> for Value {
    fn from(value: u128) -> Self {
        match i128::try_from(value) {
            Ok(signed) => signed.into(),
            Err(_) => Value::UInt128(Box::new(value)),
        }
    }
}

macro_rules! from_small {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Value::Int(value.into())
            }
        }
    )*};
}
from_small!(i8, u8, i16, u16, i32, u32, i64);

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        i128::from(value).into()
    }
}

macro_rules! from_variant {
    ($($ty:ty => $variant:ident),* $(,)?) => {$(
        impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Value::$variant(value)
            }
        }
    )*};
}
from_variant! {
    bool => Bool,
    Half => Half,
    f32 => Single,
    f64 => Double,
    Decimal => Decimal,
    String => String,
    Vec<u8> => Bytes,
    Uuid => Guid,
    DateTime => DateTime,
    DateTimeOffset => DateTimeOffset,
    TimeSpan => TimeSpan,
    DateOnly => DateOnly,
    TimeOnly => TimeOnly,
    Vec<Value> => List,
    RawJson => Json,
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::String(value.into())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_the_smallest_variant() {
        assert_eq!(Value::from(5_u64), Value::Int(5));
        assert_eq!(Value::from(u64::MAX), Value::UInt(u64::MAX));
        assert_eq!(Value::from(-1_i128), Value::Int(-1));
        assert_eq!(Value::from(i128::MIN), Value::Int128(Box::new(i128::MIN)));
        assert_eq!(Value::from(u128::MAX), Value::UInt128(Box::new(u128::MAX)));
        assert_eq!(Value::from(1_u128 << 100).as_i128(), Some(1 << 100));
        assert_eq!(Value::from(u128::MAX).as_u128(), Some(u128::MAX));
        assert_eq!(Value::from(-1).as_u128(), None);
    }

    #[test]
    fn values_are_small() {
        assert!(size_of::<Value>() <= 32, "{}", size_of::<Value>());
    }
}
