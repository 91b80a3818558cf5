//! `witrpc serve`: the demo service, until a signal ends it.

use std::sync::Arc;
use std::time::Duration;

use witrpc::resilience::dedup::DedupOptions;
use witrpc::server::{EventTypeNames, Server, ServerLimits, ServiceBuilder};

use crate::args::ServeArgs;
use crate::demo::{self, FaultSwitches, Faults, Trace};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::signals::Signals;

/// How long running calls may take to finish when the server is stopped.
const FINISH: Duration = Duration::from_secs(10);

/// Runs the command.
pub(crate) async fn run(args: ServeArgs) -> Exit {
    // Before anybody can know that it runs: a signal then already means "stop in order".
    let signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => {
            output::note(&format!("no signals: {error}"));
            return Exit::Internal;
        }
    };
    match start(args).await {
        Ok(server) => serve(server, signals).await,
        Err(failure) => {
            output::note(&failure.line());
            failure.exit
        }
    }
}

async fn start(args: ServeArgs) -> Result<Server, Failure> {
    let trace = args.trace.as_ref().map(|path| {
        Trace::open(path).map(Arc::new).map_err(|e| {
            Failure::argument(format!("can't open the trace file {}: {e}", path.display()))
        })
    });
    let trace = trace.transpose()?;
    let faults = Arc::new(Faults::new(FaultSwitches {
        close_before: args.faults.close_before,
        close_after: args.faults.close_after,
        close_every: args.faults.close_every,
        exit_after: args.faults.exit_after,
    }));
    let handshake = args.handshake_timeout;
    let limits = ServerLimits {
        max_clients: args.max_clients,
        handshake_timeout: (!handshake.is_zero()).then_some(handshake),
        ..ServerLimits::default()
    };
    let keeps_all =
        (args.journal.is_some() || args.store.redis.is_some()) && args.durable.is_empty();
    let kept = |service: ServiceBuilder| match keeps_all {
        true => service.all_durable(),
        false => service,
    };
    let echo = args.durable.iter().fold(
        demo::service(trace.clone(), faults.clone()),
        |echo, name| echo.durable(name),
    );
    let mut builder = Server::builder()
        .service(kept(echo))
        .codec(args.codec)
        .encryption(args.encrypt)
        .limits(limits)
        .event_type_names(match args.strong {
            true => EventTypeNames::Strong,
            false => EventTypeNames::Weak,
        })
        .dedup(DedupOptions {
            max_records: args.dedup_records,
            max_bytes: args.dedup_bytes,
            hold: args.dedup_hold,
            max_answer: args.dedup_max_answer,
            ..DedupOptions::default()
        });
    builder = args.store.add_to(builder, args.dedup_hold)?;
    builder = match args.token_file {
        Some(file) => builder.token_file(file),
        None => builder.token(args.token),
    };
    let endpoints: Vec<&str> = args.endpoints.iter().map(String::as_str).collect();
    if let Some(tls) = args.tls.options(&endpoints)? {
        builder = builder.tls(tls);
    }
    if let Some(mode) = args.pipe_mode {
        builder = builder.pipe_mode(mode);
    }
    if args.composite {
        builder = builder
            .service(kept(demo::second_service(trace.clone(), faults.clone())))
            .service(kept(demo::generic_service(trace, faults)));
    }
    if let Some(directory) = args.journal {
        builder = builder.journal(directory);
    }
    if args.ordered {
        builder = builder.ordered_per_connection();
    }
    for endpoint in endpoints {
        builder = builder.listen(endpoint);
    }
    builder.start().await.map_err(|error| {
        let failure = Failure::from(error);
        match failure.exit {
            Exit::NotSent => failure.without_advice(),
            _ => failure,
        }
    })
}

async fn serve(server: Server, mut signals: Signals) -> Exit {
    for endpoint in server.endpoints() {
        if !output::line(&format!("listening {endpoint}")) {
            output::note("nobody reads where it listens: stdout is closed");
            return Exit::Internal;
        }
    }
    signals.next().await;
    let running = server.stats().running;
    if running > 0 {
        output::note(&format!(
            "stopping: running calls may finish within {FINISH:?} ({running} now); another signal \
             ends them at once"
        ));
    }
    tokio::select! {
        finished = server.stop(FINISH) => {
            if finished {
                return Exit::Ok;
            }
            output::note("stopped; calls that had not finished were abandoned");
            Exit::Internal
        }
        exit = signals.next() => exit,
    }
}
