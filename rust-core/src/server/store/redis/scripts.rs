//! The scripts that Redis runs: what they are called with and what they say.
//!
//! Owns the names of keys and the form of arguments and answers. Each script is atomic, and may be sent again with
//! the same arguments: it then says the same, so that whoever has not heard an answer asks once more.

use bytes::Bytes;
use redis::Value;
use uuid::Uuid;

use super::super::StoredCall;

/// One of the scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Hello,
    Begin,
    Finish,
    Abandon,
    Renew,
}

impl Script {
    pub(super) const ALL: [Self; 5] = [
        Self::Hello,
        Self::Begin,
        Self::Finish,
        Self::Abandon,
        Self::Renew,
    ];

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Hello => include_str!("lua/hello.lua"),
            Self::Begin => include_str!("lua/begin.lua"),
            Self::Finish => include_str!("lua/finish.lua"),
            Self::Abandon => include_str!("lua/abandon.lua"),
            Self::Renew => include_str!("lua/renew.lua"),
        }
    }
}

/// A script with its keys and arguments.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) script: Script,
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) args: Vec<Bytes>,
}

impl Request {
    pub(super) fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(Vec::len).sum::<usize>();
        keys + self.args.iter().map(Bytes::len).sum::<usize>()
    }
}

/// Names of keys. Principals may hold any character; what follows them has one length only, so that
/// no two names are alike.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    pub(super) fn epoch(&self) -> Vec<u8> {
        format!("{}epoch", self.prefix).into_bytes()
    }

    fn calls_of(&self, principal: &str) -> String {
        format!("{}call:{principal}:", self.prefix)
    }

    pub(super) fn call(&self, principal: &str, invocation: Uuid) -> Vec<u8> {
        format!("{}{invocation}", self.calls_of(principal)).into_bytes()
    }

    fn client(&self, principal: &str, client: Uuid) -> Vec<u8> {
        format!("{}client:{principal}:{client}", self.prefix).into_bytes()
    }

    fn begun(&self, principal: &str, client: Uuid) -> Vec<u8> {
        format!("{}begun:{principal}:{client}", self.prefix).into_bytes()
    }
}

/// Times in ms, as scripts take them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) lease: u64,
    pub(super) hold: u64,
    pub(super) client_hold: u64,
}

/// What [`Script::Begin`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Begun {
    /// The epoch is another one.
    OtherEpoch,
    Run,
    Done(Bytes),
    Unknown,
    Mismatch,
    /// Another server runs it, and its lease lasts so many ms more.
    Running(u64),
}

fn text(value: impl ToString) -> Bytes {
    value.to_string().into()
}

/// A number whose text sorts as it does.
fn sortable(number: u64) -> Bytes {
    format!("{number:020}").into()
}

fn entry(number: u64, invocation: Uuid) -> Bytes {
    format!("{number:020}:{invocation}").into()
}

pub(super) fn hello(keys: &Keys, candidate: u64, run: &str, restarts_are_trusted: bool) -> Request {
    Request {
        script: Script::Hello,
        keys: vec![keys.epoch()],
        args: vec![
            text(candidate),
            text(run),
            text(u8::from(restarts_are_trusted)),
        ],
    }
}

pub(super) fn begin(keys: &Keys, times: Times, call: &StoredCall, token: u64) -> Request {
    let mut request = Request {
        script: Script::Begin,
        keys: vec![keys.epoch(), keys.call(&call.principal, call.invocation)],
        args: vec![
            text(call.epoch),
            text(token),
            Bytes::copy_from_slice(&call.digest),
            text(times.lease),
            text(times.hold),
            text(times.client_hold),
        ],
    };
    let (number, mark) = match call.numbered {
        Some(numbered) => {
            let client = numbered.client;
            request.keys.push(keys.client(&call.principal, client));
            request.keys.push(keys.begun(&call.principal, client));
            let mark = sortable(numbered.first_unfinished);
            (sortable(numbered.number), mark)
        }
        None => (Bytes::new(), Bytes::new()),
    };
    request.args.extend([
        number,
        mark,
        text(u8::from(call.repeated && call.elsewhere)),
        keys.calls_of(&call.principal).into(),
        text(call.invocation),
        text(u8::from(call.not_executed)),
    ]);
    request
}

pub(super) fn finish(call: Vec<u8>, token: u64, hold: u64, answer: Option<Bytes>) -> Request {
    let mut args = vec![text(token), text(hold)];
    args.extend(answer);
    Request {
        script: Script::Finish,
        keys: vec![call],
        args,
    }
}

pub(super) fn abandon(keys: &Keys, call: &StoredCall, token: u64) -> Request {
    let mut request = Request {
        script: Script::Abandon,
        keys: vec![keys.call(&call.principal, call.invocation)],
        args: vec![text(token)],
    };
    if let Some(numbered) = call.numbered {
        let begun = keys.begun(&call.principal, numbered.client);
        request.keys.push(begun);
        let entry = entry(numbered.number, call.invocation);
        request.args.push(entry);
    }
    request
}

/// Asks for the epoch, and renews these leases.
pub(super) fn renew(keys: &Keys, times: Times, leases: &[(Vec<u8>, u64)]) -> Request {
    let calls = leases.iter().map(|(call, _)| call.clone());
    let tokens = leases.iter().map(|(_, token)| text(token));
    Request {
        script: Script::Renew,
        keys: std::iter::once(keys.epoch()).chain(calls).collect(),
        args: [text(times.lease), text(times.hold)]
            .into_iter()
            .chain(tokens)
            .collect(),
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(n) => (*n).try_into().ok(),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

/// Reads what [`begin`] was answered; `None` if it makes no sense.
pub(super) fn begun(value: Value) -> Option<Begun> {
    let Value::Array(items) = value else {
        return None;
    };
    let mut items = items.into_iter();
    let Value::BulkString(word) = items.next()? else {
        return None;
    };
    Some(match word.as_slice() {
        b"epoch" => Begun::OtherEpoch,
        b"run" => Begun::Run,
        b"unknown" => Begun::Unknown,
        b"mismatch" => Begun::Mismatch,
        b"running" => Begun::Running(number(&items.next()?)?),
        b"done" => match items.next()? {
            Value::BulkString(answer) => Begun::Done(answer.into()),
            _ => return None,
        },
        _ => return None,
    })
}

/// Reads what [`hello`] was answered.
pub(super) fn epoch(value: &Value) -> Option<u64> {
    number(value)
}

/// Reads what [`finish`] was answered: whether the call was still ours.
pub(super) fn finished(value: &Value) -> Option<bool> {
    Some(number(value)? == 1)
}

/// Reads what [`renew`] was answered: the epoch, and whether each call is still ours.
pub(super) fn renewed(value: &Value) -> Option<(Option<u64>, Vec<bool>)> {
    let Value::Array(items) = value else {
        return None;
    };
    let (first, rest) = items.split_first()?;
    let ours = rest.iter().map(finished).collect::<Option<Vec<_>>>()?;
    Some((number(first), ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_as_text() {
        let mut numbers = [
            0,
            1,
            9,
            10,
            99,
            1 << 53,
            (1 << 53) + 1,
            u64::MAX - 1,
            u64::MAX,
        ];
        numbers.sort_by_key(|n| sortable(*n));
        assert!(numbers.is_sorted());
        assert!(sortable(u64::MAX) < "9".repeat(20));
    }

    #[test]
    fn keys_of_different_principals_differ() {
        let keys = Keys::new("p:");
        let id = Uuid::from_u128(7);
        let other = format!("a:{}", Uuid::from_u128(8));
        assert_ne!(keys.call("a", id), keys.call(&other, id));
        assert!(keys.call("a", id).starts_with(b"p:call:a:"));
    }

    #[test]
    fn answers_that_make_no_sense_are_told_apart() {
        let word = |word: &str| Value::BulkString(word.as_bytes().to_vec());
        assert_eq!(begun(Value::Array(vec![word("run")])), Some(Begun::Run));
        for odd in [
            Value::Nil,
            word("run"),
            Value::Array(vec![]),
            Value::Array(vec![word("walk")]),
            Value::Array(vec![word("done")]),
            Value::Array(vec![word("running"), word("x")]),
        ] {
            assert_eq!(begun(odd), None);
        }
        assert_eq!(finished(&Value::Nil), None);
        assert_eq!(
            renewed(&Value::Array(vec![Value::Nil])),
            Some((None, vec![]))
        );
    }
}
