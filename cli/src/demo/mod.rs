//! The demo service `Demo.IEcho`: every method and event of the contract, as a .NET service would
//! show them on the wire, the texts of its errors included.
//!
//! Owns the service's state and what each method does. How calls are traced and outages staged is in
//! [`Trace`] and [`Faults`].

mod faults;
mod generic;
mod trace;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use witrpc::codec::Value;
use witrpc::contract::{Contract, TypeDecl};
use witrpc::server::{CallContext, Fault, ServiceBuilder};

pub use faults::{FaultSwitches, Faults};
pub use generic::{generic_contract, generic_service};
pub use trace::Trace;

const ECHO: &str = include_str!("../../contracts/demo-echo.witrpc.json");

/// What .NET says of an exception that a synchronous method throws; its own text is lost.
const REFLECTION: &str = "Exception has been thrown by the target of an invocation.";
/// The text of an `InvalidOperationException` that was given none.
const NO_TEXT: &str = "Operation is not valid due to the current state of the object.";
/// What .NET's delays say of a negative time.
const NEGATIVE_DELAY: &str = "The value needs to be either -1 (signifying an infinite timeout), 0 or \
                              a positive integer. (Parameter 'millisecondsDelay')";

/// The contract `Demo.IEcho`.
#[allow(clippy::expect_used)]
pub fn contract() -> Contract {
    Contract::from_json(ECHO).expect("the contract file is part of this program and tested")
}

/// The service, to be given to a [`Server`](witrpc::server::Server). `trace` and `faults` may be
/// shared with other services: calls are counted over all of them.
pub fn service(trace: Option<Arc<Trace>>, faults: Arc<Faults>) -> ServiceBuilder {
    let demo = Arc::new(Demo {
        trace,
        faults,
        count: AtomicI32::new(0),
        name: std::sync::Mutex::new(Some("echo".into())),
    });
    let contract = contract();
    let methods = contract.methods().iter().map(ToString::to_string);
    methods
        .collect::<Vec<_>>()
        .iter()
        .fold(ServiceBuilder::new(contract), |service, line| {
            let demo = demo.clone();
            service.handle_values(line, move |call, arguments| {
                demo.clone().execute(call, arguments)
            })
        })
}

/// A second, small service, `Demo.Outer+IInner`, for servers of several contracts.
pub fn second_service(trace: Option<Arc<Trace>>, faults: Arc<Faults>) -> ServiceBuilder {
    let contract = Contract::builder("Demo.Outer+IInner")
        .assembly("Demo.Contracts")
        .declare(TypeDecl::class("Demo.Outer+Arg").member("int X"))
        .method("int Run(Outer.Arg arg)")
        .build();
    let demo = Arc::new((trace, faults));
    match contract {
        Ok(contract) => {
            ServiceBuilder::new(contract).handle_values("Run", move |call, arguments| {
                let demo = demo.clone();
                async move {
                    let (trace, faults) = &*demo;
                    let x = match &arguments[..] {
                        [Value::Object(arg)] => arg.get("X").cloned(),
                        _ => None,
                    };
                    staged(trace.as_deref(), faults, &call, async {
                        x.ok_or_else(|| Fault::new(REFLECTION))
                    })
                    .await
                }
            })
        }
        // Whoever starts a server with it is told.
        Err(_) => ServiceBuilder::open("Demo.Outer+IInner"),
    }
}

/// Runs a call as the trace and the fault switches want it.
async fn staged(
    trace: Option<&Trace>,
    faults: &Faults,
    call: &CallContext,
    work: impl Future<Output = Result<Value, Fault>>,
) -> Result<Value, Fault> {
    let number = faults.begin();
    if faults.close_before(number) {
        call.drop_connection();
        return Err(Fault::overloaded("This call closes its connection"));
    }
    if let Some(trace) = trace {
        trace.executes(call.method().name(), call.invocation_id());
    }
    let result = work.await;
    faults.executed();
    if faults.close_after(number) {
        call.drop_connection();
    }
    result
}

struct Demo {
    trace: Option<Arc<Trace>>,
    faults: Arc<Faults>,
    count: AtomicI32,
    name: std::sync::Mutex<Option<String>>,
}

impl Demo {
    async fn execute(
        self: Arc<Self>,
        call: CallContext,
        arguments: Vec<Value>,
    ) -> Result<Value, Fault> {
        let work = self.perform(&call, arguments);
        staged(self.trace.as_deref(), &self.faults, &call, work).await
    }

    async fn perform(&self, call: &CallContext, arguments: Vec<Value>) -> Result<Value, Fault> {
        let count = arguments.len();
        let mut arguments = arguments.into_iter();
        let (first, second) = (arguments.next(), arguments.next());
        let (first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
        Ok(match call.method().name() {
            "Ping" => "pong".to_owned().into(),
            "Add" => Value::Int(int(&first).wrapping_add(int(&second)).into()),
            "AddOne" => Value::Int(int(&first).wrapping_add(1).into()),
            "Not" => Value::Bool(first != Value::Bool(true)),
            "get_Name" => self.name().clone().map_or(Value::Null, Value::String),
            "set_Name" | "Fire" => {
                *self.name() = text(first);
                Value::Null
            }
            "Count" => Value::Int(self.count.load(Ordering::SeqCst).into()),
            "CountUp" => Value::Int(self.count_up(int(&first)).into()),
            "Overload" if count == 2 => {
                let text = text(second).unwrap_or_default();
                Value::String(format!("{text}{}", int(&first)))
            }
            "Overload" => overload(first)?,
            "SlowAsync" => {
                self.count_up(1);
                delay(int(&first))
                    .await
                    .map_err(|text| Fault::new(aggregate(text)))?;
                second
            }
            "Slow" => {
                self.count_up(1);
                delay(int(&first))
                    .await
                    .map_err(|_| Fault::new(REFLECTION))?;
                second
            }
            "DelayAsync" => {
                delay(int(&first))
                    .await
                    .map_err(|_| Fault::new(REFLECTION))?;
                Value::Null
            }
            "Fail" => return Err(Fault::new(REFLECTION)),
            "FailAsync" => {
                let text = text(first);
                return Err(Fault::new(aggregate(text.as_deref().unwrap_or(NO_TEXT))));
            }
            "FailTaskAsync" => {
                return Err(Fault::new(
                    text(first).unwrap_or_else(|| NO_TEXT.to_owned()),
                ));
            }
            "RaiseProgress" => raise(call, "Progress", &[first])?,
            "RaiseChanged" => {
                let changed = witrpc::codec::Object {
                    type_name: None,
                    members: vec![("Percent".into(), first), ("Note".into(), second)],
                };
                // The sender, the service itself, never travels. Nor does the other one where the codec
                // has no form for its class: .NET then sends nothing in its place.
                let changed = Value::Object(Box::new(changed));
                raise(call, "Changed", &[Value::Null, changed])
                    .or_else(|_| raise(call, "Changed", &[Value::Null, Value::Null]))?
            }
            "RaisePerson" => raise(call, "PersonChanged", &[first, "note".to_owned().into()])?,
            "RaiseNothing" => raise(call, "Nothing", &[])?,
            "RaiseMany" => {
                for n in 0..int(&first) {
                    raise(call, "Progress", &[Value::Int(n.into())])?;
                }
                Value::Null
            }
            "RaiseNull" => raise(call, "PersonChanged", &[Value::Null, Value::Null])?,
            // All the others give back what they got.
            _ => first,
        })
    }

    fn name(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        // A panic elsewhere leaves the name as good as it was.
        self.name
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds as `Interlocked.Add` does.
    fn count_up(&self, by: i32) -> i32 {
        self.count.fetch_add(by, Ordering::SeqCst).wrapping_add(by)
    }
}

/// An int of the contract; the codec has checked its range.
fn int(value: &Value) -> i32 {
    match value {
        Value::Int(value) => i32::try_from(*value).unwrap_or_default(),
        _ => 0,
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// The text of a `Task<T>` that failed.
fn aggregate(text: &str) -> String {
    format!("One or more errors occurred. ({text})")
}

/// `Overload(int)` and `Overload(string)`.
fn overload(argument: Value) -> Result<Value, Fault> {
    match argument {
        Value::Int(_) => Ok(argument),
        Value::String(text) => {
            let units = text.encode_utf16().count();
            Ok(Value::Int(i64::try_from(units).unwrap_or(i64::MAX)))
        }
        // The length of no string.
        _ => Err(Fault::new(REFLECTION)),
    }
}

/// Waits as .NET does: -1 is for ever, less is an error.
async fn delay(milliseconds: i32) -> Result<(), &'static str> {
    match u64::try_from(milliseconds) {
        Ok(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        Err(_) if milliseconds == -1 => std::future::pending().await,
        Err(_) => return Err(NEGATIVE_DELAY),
    }
    Ok(())
}

fn raise(call: &CallContext, event: &str, arguments: &[Value]) -> Result<Value, Fault> {
    let contract = call.method().contract_name();
    call.publisher().raise_values(contract, event, arguments)?;
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_can_be_read_and_every_method_has_a_handler() {
        let contract = contract();
        assert_eq!(contract.methods().len(), 74);
        assert_eq!(contract.events().len(), 4);
    }
}
