//! The command line: its grammar and its help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use uuid::Uuid;
use witrpc::client::{MethodLookup, TypeNameForm};
use witrpc::codec::{Codec, RawJson};

use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::output;
use crate::store::StoreArgs;
use crate::tls::{ClientTlsArgs, ServerTlsArgs};
use crate::units::{self, Reconnect};

/// Calls, serves and listens to WitRPC services.
#[derive(Debug, Parser)]
#[command(name = "witrpc", version, subcommand_required = true, after_help = exit::TABLE)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Tell on stderr what happens: connections, retries; -vv and -vvv tell more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Call a method and print its result as JSON
    #[command(after_help = exit::TABLE, long_about = CALL)]
    Call(Box<CallArgs>),
    /// Print events as JSON lines, across reconnections
    #[command(after_help = exit::TABLE, long_about = LISTEN)]
    Listen(Box<ListenArgs>),
    /// Serve the demo contract Demo.IEcho
    #[command(long_about = SERVE)]
    Serve(Box<ServeArgs>),
}

const CALL: &str = "\
Call a method and print its result as JSON on stdout; a void method prints nothing.

  witrpc call tcp://127.0.0.1:5100 Demo.IEcho 'int Add(int, int)' 2 3
  witrpc call tcp://127.0.0.1:5100 Demo.IEcho 'string Echo(string)' hello
  witrpc call tcp://127.0.0.1:5100 Demo.IEcho 'DateTime When(DateTime)' 2026-11-30
  witrpc call tcp://127.0.0.1:5100 Demo.IGeneric 'List<int> Twice<int>(int)' 5   (generic)
  echo '[2,3]' | witrpc call tcp://127.0.0.1:5100 Demo.IEcho 'int Add(int, int)' -

Each ARG is one JSON value. A word that is no JSON is taken as text where the parameter is a string, \
char, Guid, DateTime, DateTimeOffset, TimeSpan, DateOnly, TimeOnly, Uri, Version or byte[] (base64), \
so that `hello` means `\"hello\"`. What begins with \", [ or { is always read as JSON, and so are \
numbers, true, false and null: for the text 123 write '\"123\"'. A single - reads the JSON array of \
all arguments from stdin. Write -- before an ARG that begins with a dash and is no number.";

const LISTEN: &str = "\
Print each event as one JSON line, {\"event\":\"Progress\",\"args\":[42]}, until Ctrl-C.

  witrpc listen tcp://127.0.0.1:5100 Demo.IEcho 'event Action<int> Progress'

Events come in the order in which they were raised. Notes about the connection go to stderr; events \
raised while there is none are lost, and so are the oldest of those that wait for an output that is too \
slow: a note says how many.";

const SERVE: &str = "\
Serve the demo contract Demo.IEcho, for trying out clients. stdout gets one line \
`listening ENDPOINT` for each endpoint, with the port that was given for port 0.

  witrpc serve --demo tcp://127.0.0.1:0
  witrpc serve --demo tcp://127.0.0.1:5100 ws://127.0.0.1:5180/api/ pipe://demo

SIGINT and SIGTERM stop it in order: what runs may finish within 10 seconds; a second signal ends it \
at once.

Exit codes: 0 stopped in order, 1 calls were abandoned, 2 usage, 3 bad argument, 4 can't listen, 130 \
or 143 ended by a second signal.";

/// What `call` and `listen` have in common.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Where the server is: tcp://host:port, tls://host:port, ws://host:port/path, wss://…, or
    /// pipe://name; or @NAME for a client that a witrpc.toml describes
    pub(crate) endpoint: String,

    /// The .NET name of the contract, as Demo.IEcho
    pub(crate) contract: String,

    /// Contract file (*.witrpc.json): checks lines, allows short names of methods and types
    #[arg(long = "contract", value_name = "FILE", help_heading = "Contract")]
    pub(crate) contract_file: Option<PathBuf>,

    /// How the server encodes arguments: json, memorypack, messagepack, protobuf or google-protobuf.
    /// All but json need --contract for methods with classes or enums [default: json]
    #[arg(long, value_name = "CODEC", help_heading = "Contract")]
    pub(crate) codec: Option<Codec>,

    /// File that describes clients by name, for @NAME [default: witrpc.toml]
    #[arg(
        long,
        env = "WITRPC_CONFIG",
        value_name = "FILE",
        help_heading = "Connection"
    )]
    pub(crate) config: Option<PathBuf>,

    /// Access token. Others can see it in the list of processes: rather use --token-file
    #[arg(
        long,
        env = "WITRPC_TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file",
        help_heading = "Connection"
    )]
    pub(crate) token: Option<String>,

    /// File with the access token, read before every attempt to connect and when it was refused
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) token_file: Option<PathBuf>,

    /// Encrypt, as WitRPC does it: the server must be set alike
    #[arg(long, help_heading = "Connection")]
    pub(crate) encrypt: bool,

    #[command(flatten)]
    pub(crate) tls: ClientTlsArgs,

    /// Limit of one attempt to connect [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = units::limit, help_heading = "Connection")]
    pub(crate) connect_timeout: Option<Duration>,

    /// Reconnect by itself: fleet (what it means alone: for ever, with jitter, the first connect
    /// too), default (10 attempts; what --retry implies), off; and key=value pairs, as
    /// fleet,max_delay=5s
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true,
        default_missing_value = "fleet", value_parser = units::reconnect,
        help_heading = "Connection")]
    pub(crate) reconnect: Option<Reconnect>,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,

    /// The C# line of the method, as 'int Add(int a, int b)'; of a generic one with types, as
    /// 'int Echo<int>(int value)' or 'T Echo<T>(T value) where T = int'
    #[arg(value_name = "METHOD-LINE")]
    pub(crate) method: String,

    /// Its arguments, each a JSON value; a single - reads an array of them from stdin
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    pub(crate) arguments: Vec<String>,

    /// File with the JSON array of arguments; - is stdin
    #[arg(
        long = "args",
        value_name = "FILE",
        conflicts_with = "arguments",
        help_heading = "Call"
    )]
    pub(crate) arguments_file: Option<PathBuf>,

    /// Limit of connecting, and of the whole call: all attempts, all delays
    #[arg(long, value_name = "TIME", value_parser = units::limit, help_heading = "Call")]
    pub(crate) timeout: Option<Duration>,

    /// Limit of one attempt of the call [default: 30s, or the --timeout of a call without retries]
    #[arg(long, value_name = "TIME", value_parser = units::limit, help_heading = "Call")]
    pub(crate) attempt_timeout: Option<Duration>,

    /// Retry a call that failed without an answer (3 times, after 0.5, 1 and 2 s)
    #[arg(long, help_heading = "Call")]
    pub(crate) retry: bool,

    /// Retry at most this often
    #[arg(long, value_name = "N", help_heading = "Call")]
    pub(crate) retries: Option<u32>,

    /// Retry anywhere: the method may run twice
    #[arg(long, conflicts_with = "deduplicated", help_heading = "Call")]
    pub(crate) idempotent: bool,

    /// Retry only where the server recognises the repetition, so that the method never runs twice
    /// (what --retry alone means)
    #[arg(long, help_heading = "Call")]
    pub(crate) deduplicated: bool,

    /// The call's own id: the same id later, from anywhere, gets the stored answer
    #[arg(long, value_name = "GUID", help_heading = "Call")]
    pub(crate) invocation_id: Option<Uuid>,

    /// How to say which method is meant: id, id-or-name (as a .NET client does), or name; generic
    /// methods always go by name
    #[arg(long, value_name = "HOW", default_value = "id", value_parser = units::lookup,
        help_heading = "Call")]
    pub(crate) lookup: MethodLookup,

    /// How types are named where a call goes by name: weak, or strong as a .NET client does
    #[arg(long, value_name = "FORM", default_value = "weak", value_parser = units::type_names,
        help_heading = "Call")]
    pub(crate) type_names: TypeNameForm,

    /// Make the call N times, one after the other, until one fails
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true,
        value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "invocation_id",
        help_heading = "Call")]
    pub(crate) repeat: u64,

    /// Print one JSON object on stdout, also for errors
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,

    /// The C# lines of the events, as 'event Action<int> Progress'
    #[arg(value_name = "EVENT-LINE", required = true)]
    pub(crate) events: Vec<String>,

    /// Events that wait for a slow output; of more, the oldest are lost, and a note says how many
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub(crate) queue: usize,

    /// End after this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Serve the demo contract (the only one this command can serve)
    #[arg(long, required = true)]
    pub(crate) demo: bool,

    /// Where to listen: tcp://host:port, tls://host:port, ws://host:port/path, wss://…, or
    /// pipe://name. Port 0 picks one, * is every address
    #[arg(required = true, value_name = "ENDPOINT")]
    pub(crate) endpoints: Vec<String>,

    /// How arguments are encoded: json, memorypack, messagepack, protobuf or google-protobuf
    #[arg(long, value_name = "CODEC", default_value_t = Codec::Json)]
    pub(crate) codec: Codec,

    /// Append a line `exec METHOD INVOCATIONID` for each execution, before it begins
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Accept only this access token [default: none]
    #[arg(
        long,
        env = "WITRPC_TOKEN",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true,
        conflicts_with = "token_file"
    )]
    pub(crate) token: String,

    /// Accept only the access token in this file; a new one counts at once
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Encrypt, as WitRPC does it, and refuse clients that do not
    #[arg(long)]
    pub(crate) encrypt: bool,

    #[command(flatten)]
    pub(crate) tls: ServerTlsArgs,

    /// Permissions of the socket file of pipe://, octal [default: 600]
    #[arg(long, value_name = "MODE", value_parser = units::mode)]
    pub(crate) pipe_mode: Option<u32>,

    /// Run the calls of one connection one after another, as .NET servers do
    #[arg(long)]
    pub(crate) ordered: bool,

    /// Connections at the same time; one more is closed at once
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) max_clients: usize,

    /// Time from accepting a connection until it must be authorised; 0 is no limit
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration)]
    pub(crate) handshake_timeout: Duration,

    /// Events name their types in the strong form
    #[arg(long)]
    pub(crate) strong: bool,

    /// Serve two more contracts (Demo.Outer+IInner, Demo.IGeneric)
    #[arg(long)]
    pub(crate) composite: bool,

    /// Calls remembered at the same time
    #[arg(
        long,
        value_name = "N",
        default_value_t = 65_536,
        help_heading = "De-duplication"
    )]
    pub(crate) dedup_records: usize,

    /// Bytes of answers remembered
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::bytes,
        help_heading = "De-duplication")]
    pub(crate) dedup_bytes: usize,

    /// How long an answer is remembered
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = units::duration,
        help_heading = "De-duplication")]
    pub(crate) dedup_hold: Duration,

    /// Larger answers are not remembered
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = units::bytes,
        help_heading = "De-duplication")]
    pub(crate) dedup_max_answer: usize,

    /// Keep calls in this directory, so that none runs twice even if the server is killed: it is
    /// made if need be, and is for one server alone
    #[arg(
        long,
        value_name = "DIR",
        group = "kept",
        help_heading = "De-duplication"
    )]
    pub(crate) journal: Option<PathBuf>,

    /// Keep only calls of these methods [default: all]
    #[arg(
        long,
        value_name = "METHOD,...",
        value_delimiter = ',',
        requires = "kept",
        help_heading = "De-duplication"
    )]
    pub(crate) durable: Vec<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) faults: FaultArgs,
}

/// Outages at an exact call. Calls are counted from 1 when they are about to run, over all
/// connections; repetitions that are answered from memory don't count.
#[derive(Debug, Args)]
#[command(next_help_heading = "Faults (calls are counted when they are about to run)")]
pub(crate) struct FaultArgs {
    /// Call number N closes its connection instead of running
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) close_before: Option<u64>,

    /// Call number N runs, then its connection is closed without an answer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) close_after: Option<u64>,

    /// As --close-before, for every N-th call
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) close_every: Option<u64>,

    /// The process ends itself (exit code 137) when N calls have run, the last one unanswered
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) exit_after: Option<u64>,
}

impl Cli {
    /// Reads the command line. Help, version and errors are printed here.
    pub(crate) fn read(args: impl Iterator<Item = OsString>) -> Result<Self, Exit> {
        let args = in_words_of_clap(args);
        let command = Self::command().term_width(100);
        let read = command
            .try_get_matches_from(&args)
            .and_then(|matches| Self::from_arg_matches(&matches));
        read.map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                let _ = error.print();
                Exit::Ok
            }
            _ => {
                let options = args.iter().take_while(|arg| *arg != "--");
                if options.clone().any(|arg| arg == "--json") {
                    output::line(&Failure::usage(summary(&error)).json(0.0));
                } else {
                    let _ = error.print();
                }
                Exit::Usage
            }
        })
    }
}

/// The first paragraph of clap's message, as one line.
fn summary(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Says to clap what people mean.
///
/// * `--reconnect` needs no value, so that clap must see one attached to it; but who writes
///   `--reconnect fleet` means that.
/// * Of negative numbers clap knows none like `-5E-324`. Before a blank it sees no dash, and JSON no
///   blank.
fn in_words_of_clap(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut options = true;
    for mut arg in args {
        options &= arg != "--";
        if let Some(text) = arg.to_str().filter(|_| options) {
            if let Some(last) = words.last_mut()
                && last == "--reconnect"
                && units::is_reconnect_spec(text)
            {
                last.push("=");
                last.push(text);
                continue;
            }
            let exponent = text.starts_with('-') && text.contains(['e', 'E']);
            if exponent && text.parse::<f64>().is_ok() && RawJson::parse(text).is_ok() {
                arg = format!(" {text}").into();
            }
        }
        words.push(arg);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Cli, String> {
        let args = ["witrpc"].iter().chain(args).map(OsString::from);
        Cli::try_parse_from(in_words_of_clap(args)).map_err(|e| e.to_string())
    }

    fn call(args: &[&str]) -> CallArgs {
        match read(args).unwrap().command {
            Command::Call(call) => *call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_may_stand_anywhere_and_negative_numbers_are_arguments() {
        let c = call(&[
            "call",
            "--json",
            "tcp://h:1",
            "C",
            "M(int)",
            "-5",
            "--timeout",
            "5s",
            "-1.5E+3",
            "-",
            "--",
            "--json",
            "-01:00:00",
        ]);
        assert_eq!(c.arguments, ["-5", " -1.5E+3", "-", "--json", "-01:00:00"]);
        assert!(c.json);
        assert_eq!(c.timeout, Some(Duration::from_secs(5)));
        assert!(read(&["call", "tcp://h:1", "C", "M(int)", "--timeuot", "5s"]).is_err());
    }

    #[test]
    fn reconnect_takes_a_value_only_if_it_is_one() {
        let fleet = units::reconnect("fleet").unwrap();
        for args in [
            &["call", "--reconnect", "tcp://h:1", "C", "M()"][..],
            &["call", "--reconnect", "fleet", "tcp://h:1", "C", "M()"],
            &["call", "--reconnect=fleet", "tcp://h:1", "C", "M()"],
            &["call", "tcp://h:1", "C", "M()", "--reconnect"],
        ] {
            let c = call(args);
            assert_eq!(c.client.reconnect, Some(fleet), "{args:?}");
            assert_eq!(c.client.endpoint, "tcp://h:1");
            assert!(c.arguments.is_empty());
        }
        let c = call(&[
            "call",
            "tcp://h:1",
            "C",
            "M()",
            "--reconnect",
            "--",
            "fleet",
        ]);
        assert_eq!(c.arguments, ["fleet"]);
        assert!(read(&["call", "--reconnect=fast", "tcp://h:1", "C", "M()"]).is_err());
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for args in [
            &["--idempotent", "--deduplicated"][..],
            &["--token", "a", "--token-file", "b"],
            &[
                "--repeat",
                "2",
                "--invocation-id",
                "00112233-4455-6677-8899-aabbccddeeff",
            ],
            &["--args", "f", "5"],
            &["--timeout", "0s"],
            &["--repeat", "0"],
        ] {
            let all = [&["call", "tcp://h:1", "C", "M(int)"], args].concat();
            assert!(read(&all).is_err(), "{args:?}");
        }
    }

    #[test]
    fn a_usage_error_is_one_line_of_json() {
        let error = Cli::try_parse_from(["witrpc", "call", "tcp://h:1"]).unwrap_err();
        let line = summary(&error);
        assert!(
            line.contains("required") && line.contains("<CONTRACT>"),
            "{line}"
        );
    }
}
