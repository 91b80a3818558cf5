//! `witrpc call`: one call, or the same one several times.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use witrpc::client::{Client, RetryPolicy, Service};
use witrpc::codec::Codec;
use witrpc::contract::{Method, Type};
use witrpc::resilience::engine::Answer;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::wire::Arguments;
use witrpc::{Error, ErrorCode};

use crate::args::CallArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::{output, values};

/// Runs the command.
pub(crate) async fn run(args: CallArgs) -> Exit {
    let begun = Instant::now();
    match prepare(&args) {
        Ok(call) => call.run(&args, begun).await,
        Err(failure) => report(&failure, &args, begun),
    }
}

fn report(failure: &Failure, args: &CallArgs, begun: Instant) -> Exit {
    if args.json {
        output::line(&failure.json(ms_since(begun)));
    } else {
        output::note(&failure.line());
    }
    failure.exit
}

fn ms_since(begun: Instant) -> f64 {
    begun.elapsed().as_micros() as f64 / 1000.0
}

/// Everything that can be checked without a connection.
fn prepare(args: &CallArgs) -> Result<Prepared, Failure> {
    let contract = args.client.open_contract()?;
    let method = contract
        .method(&args.method)
        .map_err(|e| Failure::argument(format!("method line \"{}\": {e}", args.method)))?;
    let file = args.arguments_file.as_deref();
    let opened = args.client.open()?;
    let arguments = values::arguments(&method, &args.arguments, file, opened.codec)?;
    if args.invocation_id.is_some_and(|id| id.is_nil()) {
        return Err(Failure::argument(
            "--invocation-id: all zeros would switch de-duplication off: give another id or none",
        ));
    }
    let retries = args.retry || args.retries.is_some() || args.idempotent || args.deduplicated;
    let mut builder = opened
        .builder
        .method_lookup(args.lookup)
        .type_names(args.type_names);
    if retries {
        // What is to be sent again after a loss needs a connection to go by.
        if !opened.says_reconnect {
            builder = builder.reconnect(ReconnectOptions::default());
        }
        let mut policy = RetryPolicy::new();
        if let Some(n) = args.retries {
            policy = policy.max_retries(n);
        }
        builder = builder.retry(policy);
    }
    match (args.attempt_timeout, args.timeout) {
        (Some(limit), _) => builder = builder.attempt_timeout(Some(limit)),
        // The one attempt may take all the time there is.
        (None, Some(_)) if !retries => builder = builder.attempt_timeout(None),
        _ => {}
    }
    let client = builder.build()?;
    let place = format!(
        "{}.{} at {}",
        contract.name(),
        method.name(),
        args.client.endpoint
    );
    Ok(Prepared {
        service: client.service_of(contract),
        client,
        method,
        arguments,
        codec: opened.codec,
        retries,
        place,
    })
}

struct Prepared {
    client: Client,
    service: Service,
    method: Method,
    arguments: Arguments,
    codec: Codec,
    retries: bool,
    /// For messages.
    place: String,
}

impl Prepared {
    async fn run(self, args: &CallArgs, begun: Instant) -> Exit {
        let exit = self.connect_and_call(args, begun).await;
        self.client.close();
        exit
    }

    async fn connect_and_call(&self, args: &CallArgs, mut begun: Instant) -> Exit {
        let mut signals = match Signals::new() {
            Ok(signals) => signals,
            Err(error) => {
                let failure = Error::new(ErrorCode::Internal, format!("no signals: {error}"));
                return report(&failure.into(), args, begun);
            }
        };
        if let Err(failure) = self.connect(args.timeout, &mut signals).await {
            return report(&failure, args, begun);
        }
        for n in 0..args.repeat {
            let left = match args.timeout {
                // Connecting is part of the first call.
                Some(limit) if n == 0 => Some(limit.saturating_sub(begun.elapsed())),
                limit => limit,
            };
            let answer = match self.call(args, left, &mut signals).await {
                Ok(answer) => answer,
                Err(failure) => return report(&failure.at(&self.place), args, begun),
            };
            let result = match self
                .method
                .decode_result_json(self.codec, answer.data.as_deref().unwrap_or_default())
            {
                Ok(result) => result,
                Err(error) => {
                    return report(&self.unreadable(&answer, &error), args, begun);
                }
            };
            if !self.print(args, &answer, &result, begun) {
                output::note("the result could not be written to stdout");
                return Exit::Internal;
            }
            begun = Instant::now();
        }
        Exit::Ok
    }

    async fn connect(&self, limit: Option<Duration>, signals: &mut Signals) -> Result<(), Failure> {
        let too_late = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            connected = self.client.connect() => connected.map_err(Failure::from),
            () = too_late => {
                let cause = self.client.last_failure().map(|e| format!(": {e}"));
                let message = format!(
                    "no connection within {:?}{}",
                    limit.unwrap_or_default(),
                    cause.unwrap_or_default()
                );
                Err(Error::new(ErrorCode::Timeout, message).into())
            }
            exit = signals.next() => {
                let error = Error::new(ErrorCode::Cancelled, "interrupted while connecting");
                Err(Failure::from(error).interrupted(exit))
            }
        }
    }

    async fn call(
        &self,
        args: &CallArgs,
        limit: Option<Duration>,
        signals: &mut Signals,
    ) -> Result<Answer, Failure> {
        let mut call = self
            .service
            .call_encoded::<()>(&args.method, self.arguments.clone());
        if let Some(limit) = limit {
            call = call.timeout(limit);
        }
        if args.idempotent {
            call = call.idempotent();
        } else if self.retries {
            call = call.deduplicated();
        }
        if let Some(id) = args.invocation_id {
            call = call.invocation_id(id);
        }
        let (sender, mut receiver) = oneshot::channel();
        let cancel = call.spawn_encoded(|result| {
            let _ = sender.send(result);
        })?;
        let (result, signal) = tokio::select! {
            result = &mut receiver => (result, None),
            exit = signals.next() => {
                // Not just dropped: the call's end tells whether it was sent.
                cancel.cancel();
                (receiver.await, Some(exit))
            }
        };
        let result = result.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorCode::Internal,
                "the call ended without a result",
            ))
        });
        result.map_err(|error| match signal {
            Some(exit) => Failure::from(error).interrupted(exit),
            None => error.into(),
        })
    }

    fn unreadable(&self, answer: &Answer, error: &dyn std::fmt::Display) -> Failure {
        Failure::unreadable(
            &format!("the result can't be read as {}", self.method.returns()),
            error.to_string(),
            answer,
        )
        .at(&self.place)
    }

    /// Prints a result. False if nobody takes it.
    fn print(&self, args: &CallArgs, answer: &Answer, result: &str, begun: Instant) -> bool {
        #[derive(Serialize)]
        struct Object<'a> {
            ok: bool,
            code: &'a str,
            result: &'a RawValue,
            outcome: &'a str,
            attempts: u32,
            replayed: bool,
            elapsed_ms: f64,
            exit_code: i32,
        }
        if !args.json {
            return *self.method.returns() == Type::Void || output::line(result);
        }
        let object = serde_json::from_str(result).and_then(|result| {
            serde_json::to_string(&Object {
                ok: true,
                code: "ok",
                result,
                outcome: witrpc::Outcome::Answered.name(),
                attempts: answer.attempts,
                replayed: answer.replayed,
                elapsed_ms: ms_since(begun),
                exit_code: Exit::Ok.code(),
            })
        });
        object.is_ok_and(|object| output::line(&object))
    }
}
