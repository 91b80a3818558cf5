//! `witrpc listen`: events as JSON lines.

use std::time::Duration;

use tokio::sync::mpsc;
use witrpc::client::{Client, EventArgs};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::{Error, ErrorCode, EventQueueOptions};

use crate::args::ListenArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::signals::Signals;
use crate::units::Reconnect;

/// Runs the command.
pub(crate) async fn run(mut args: ListenArgs) -> Exit {
    args.client
        .reconnect
        .get_or_insert(Reconnect(Some(ReconnectOptions::fleet())));
    match listen(&args).await {
        Ok(exit) => exit,
        Err(failure) => {
            output::note(&failure.line());
            failure.exit
        }
    }
}

/// What there is to tell besides events.
enum News {
    Reconnecting(u32, Duration),
    Reconnected,
    State(State),
}

async fn listen(args: &ListenArgs) -> Result<Exit, Failure> {
    let contract = args.client.open_contract()?;
    let (sender, mut news) = mpsc::unbounded_channel();
    let tell = |sender: &mpsc::UnboundedSender<News>| {
        let sender = sender.clone();
        move |what| {
            let _ = sender.send(what);
        }
    };
    let (reconnecting, reconnected, changed) = (tell(&sender), tell(&sender), tell(&sender));
    let client = args
        .client
        .open()?
        .builder
        .on_reconnecting(move |attempt, delay| reconnecting(News::Reconnecting(attempt, delay)))
        .on_reconnected(move || reconnected(News::Reconnected))
        .on_state_changed(move |state| changed(News::State(state)))
        .build()?;
    let service = client.service_of(contract);
    // One subscription to all of them, so that they keep their order.
    let mut events = service
        .subscribe(args.events.iter().map(String::as_str))?
        .queue(EventQueueOptions {
            max_events: args.queue,
            ..EventQueueOptions::client()
        })?
        .stream();
    let mut signals =
        Signals::new().map_err(|e| Error::new(ErrorCode::Internal, format!("no signals: {e}")))?;
    let mut connecting = std::pin::pin!(client.connect());
    let mut is_connecting = true;
    let (mut left, mut dropped) = (args.count, 0);
    loop {
        let what = tokio::select! {
            biased;
            exit = signals.next() => return Ok(exit),
            connected = &mut connecting, if is_connecting => {
                connected.map_err(|e| Failure::from(e).without_advice())?;
                is_connecting = false;
                output::note(&format!("listening at {}", args.client.endpoint));
                continue;
            }
            // Before the news that the connection is gone: what came is told.
            Some(event) = events.next() => {
                let lost = events.dropped();
                if lost > dropped {
                    output::note(&format!(
                        "the output is too slow: {lost} events are lost so far"
                    ));
                    dropped = lost;
                }
                if !print(&event) {
                    return Ok(Exit::Internal);
                }
                left = left.map(|left| left - 1);
                if left == Some(0) {
                    return Ok(Exit::Ok);
                }
                continue;
            }
            what = news.recv() => what,
        };
        match what {
            Some(News::Reconnecting(attempt, delay)) => {
                let cause = client.last_failure().map(|e| format!(" ({e})"));
                output::note(&format!(
                    "reconnecting: attempt {attempt} in {delay:.1?}{}",
                    cause.unwrap_or_default()
                ));
            }
            Some(News::Reconnected) if !is_connecting => {
                output::note("connected again: events raised meanwhile are lost");
            }
            Some(News::State(State::Disconnected | State::Failed)) if !is_connecting => {
                return Err(lost(&client));
            }
            Some(News::State(_) | News::Reconnected) => {}
            None => return Ok(Exit::Internal),
        }
    }
}

/// Prints an event. False if nobody takes it.
fn print(event: &EventArgs) -> bool {
    match event.json() {
        Ok(arguments) => {
            let name = serde_json::Value::from(event.name());
            output::line(&format!("{{\"event\":{name},\"args\":{arguments}}}"))
        }
        Err(error) => {
            output::note(&error.to_string());
            true
        }
    }
}

fn lost(client: &Client) -> Failure {
    let cause = client.last_failure().map(|e| format!(": {e}"));
    let message = format!("the connection was lost{}", cause.unwrap_or_default());
    Failure::from(Error::new(ErrorCode::Transport, message)).without_advice()
}
