//! The demo service `Demo.IGeneric`: generic methods, those that a .NET server does not find among
//! them.

use std::sync::Arc;

use witrpc::codec::{Dialect, Value};
use witrpc::contract::{Contract, Type};
use witrpc::server::{CallContext, Fault, ServiceBuilder};

use super::{Faults, Trace, int, staged};

const GENERIC: &str = include_str!("../../contracts/demo-generic.witrpc.json");

/// The contract `Demo.IGeneric`.
#[allow(clippy::expect_used)]
pub fn generic_contract() -> Contract {
    Contract::from_json(GENERIC).expect("the contract file is part of this program and tested")
}

/// A service of generic methods, for servers of several contracts.
pub fn generic_service(trace: Option<Arc<Trace>>, faults: Arc<Faults>) -> ServiceBuilder {
    let demo = Arc::new((trace, faults));
    let contract = generic_contract();
    let lines: Vec<_> = contract.methods().iter().map(ToString::to_string).collect();
    lines
        .iter()
        .fold(ServiceBuilder::new(contract), |service, line| {
            let demo = demo.clone();
            service.handle_values(line, move |call, arguments| {
                let demo = demo.clone();
                async move {
                    let (trace, faults) = &*demo;
                    let work = async { perform(&call, arguments) };
                    staged(trace.as_deref(), faults, &call, work).await
                }
            })
        })
}

fn perform(call: &CallContext, arguments: Vec<Value>) -> Result<Value, Fault> {
    let types = call.type_arguments();
    let mut arguments = arguments.into_iter();
    let (first, second) = (arguments.next(), arguments.next());
    let (first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
    let count = || match &first {
        Value::List(items) => items.len(),
        Value::Map(entries) => entries.len(),
        _ => 0,
    };
    Ok(match (call.method().name(), types) {
        ("Twice", _) => Value::List(vec![first.clone(), first]),
        ("Count", _) => Value::Int(i64::try_from(count()).unwrap_or(i64::MAX)),
        ("Pair", [a, b]) => {
            let (first, second) = (shown(call, a, &first)?, shown(call, b, &second)?);
            Value::String(format!("{}:{first},{}:{second}", name(a), name(b)))
        }
        ("Plain", [b]) => {
            let second = shown(call, b, &second)?;
            Value::String(format!("{}{}{second}", name(b), int(&first)))
        }
        ("Mixed", [ty]) => Value::String(format!("{} by {}", count(), name(ty))),
        ("Over", [ty]) => Value::String(format!("generic {}", name(ty))),
        ("Over", _) => Value::String("plain".to_owned()),
        ("NullString", _) => Value::Null,
        ("Opt", _) => Value::Int(int(&first).wrapping_add(int(&second)).into()),
        ("Par", _) => {
            let items: Vec<_> = match &first {
                Value::List(items) => items.iter().map(|item| int(item).to_string()).collect(),
                _ => Vec::new(),
            };
            Value::String(items.join(","))
        }
        // All the others give back what they got.
        _ => first,
    })
}

/// `typeof(T).Name`
fn name(ty: &Type) -> String {
    let full = ty.stable_name().unwrap_or_default();
    let bare = full.split('<').next().unwrap_or_default();
    let last = bare.rsplit(['.', '+']).next().unwrap_or_default();
    match full.len() == bare.len() {
        true => last.to_owned(),
        false => format!("{last}<>"),
    }
}

/// A value as text.
fn shown(call: &CallContext, ty: &Type, value: &Value) -> Result<String, Fault> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        value => Ok(value.to_json(ty, call.method().types(), Dialect::Text)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_can_be_read() {
        assert_eq!(generic_contract().methods().len(), 13);
    }
}
