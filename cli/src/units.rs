//! Durations, sizes, the options of reconnection and the ways of naming methods as text.

use std::time::Duration;

use witrpc::client::{MethodLookup, TypeNameForm};
use witrpc::config::units;
use witrpc::resilience::backoff::Jitter;
use witrpc::resilience::reconnect::ReconnectOptions;

/// Reads `500ms`, `5s`, `1.5s`, `2m`, `1h`; `0` needs no unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let fail = || format!("\"{text}\" is no duration: write a number with ms, s, m or h, as 1.5s");
    let seconds = units::seconds(text).ok_or_else(fail)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("\"{text}\" is too long"))
}

/// A duration above zero.
pub(crate) fn limit(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be more than zero".to_owned()),
        limit => Ok(limit),
    }
}

/// Reads how a call says which method it means.
pub(crate) fn lookup(text: &str) -> Result<MethodLookup, String> {
    match text {
        "id" => Ok(MethodLookup::Id),
        "id-or-name" => Ok(MethodLookup::IdOrName),
        "name" => Ok(MethodLookup::Name),
        _ => Err(format!("\"{text}\" is none of id, id-or-name, name")),
    }
}

/// Reads how types are named.
pub(crate) fn type_names(text: &str) -> Result<TypeNameForm, String> {
    match text {
        "weak" => Ok(TypeNameForm::Weak),
        "strong" => Ok(TypeNameForm::Strong),
        _ => Err(format!("\"{text}\" is none of weak, strong")),
    }
}

/// Reads a number of bytes: `4096`, `64KiB`, `16MiB`, `1GiB`.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => {
            return Err(format!(
                "\"{text}\" is no size: write bytes, KiB, MiB or GiB, as 16MiB"
            ));
        }
    };
    let number: usize = number
        .parse()
        .map_err(|_| format!("\"{text}\" is no size: write a number, as 16MiB"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("\"{text}\" is too large"))
}

/// Reads permissions of a file: `600`, `0660`, `0o600`.
pub(crate) fn mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    match u32::from_str_radix(digits, 8) {
        Ok(mode @ 0..=0o777) if digits.len() >= 3 && !digits.starts_with('+') => Ok(mode),
        _ => Err(format!(
            "\"{text}\" is no mode: write three octal digits, as 600"
        )),
    }
}

/// The words that the value of `--reconnect` begins with.
const PRESETS: [&str; 3] = ["fleet", "default", "off"];

const KEYS: [&str; 9] = [
    "max_attempts",
    "initial_delay",
    "max_delay",
    "backoff_multiplier",
    "jitter",
    "random_first_delay",
    "reconnect_on_disconnect",
    "retry_first_connect",
    "stable_after",
];

/// True for what can only be meant as a value of `--reconnect`.
pub(crate) fn is_reconnect_spec(text: &str) -> bool {
    let first = text.split(',').next().unwrap_or_default();
    PRESETS.contains(&first)
        || first
            .split_once('=')
            .is_some_and(|(key, _)| KEYS.contains(&key.trim()))
}

/// How to reconnect; `None` = not at all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reconnect(pub(crate) Option<ReconnectOptions>);

/// Reads `fleet`, `default` or `off`, and `key=value` pairs, separated by commas.
pub(crate) fn reconnect(text: &str) -> Result<Reconnect, String> {
    let mut options = ReconnectOptions::default();
    for (i, item) in text.split(',').map(str::trim).enumerate() {
        match item.split_once('=') {
            Some((key, value)) => set(&mut options, key.trim(), value.trim())
                .map_err(|what| format!("{}: {what}", key.trim()))?,
            None if i == 0 && item == "fleet" => options = ReconnectOptions::fleet(),
            None if i == 0 && item == "default" => {}
            None if text == "off" => return Ok(Reconnect(None)),
            None => {
                return Err(format!(
                    "\"{item}\": expected {} or key=value, with the keys {}",
                    PRESETS.join(", "),
                    KEYS.join(", ")
                ));
            }
        }
    }
    options.validate().map_err(|e| e.to_string())?;
    Ok(Reconnect(Some(options)))
}

fn set(options: &mut ReconnectOptions, key: &str, value: &str) -> Result<(), String> {
    let flag = || match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("\"{value}\": write true or false")),
    };
    match key {
        "max_attempts" => {
            options.max_attempts = value
                .parse()
                .map_err(|_| format!("\"{value}\": write a number, 0 for no limit"))?;
        }
        "initial_delay" => options.initial_delay = duration(value)?,
        "max_delay" => options.max_delay = duration(value)?,
        "backoff_multiplier" => {
            options.backoff_multiplier = value
                .parse()
                .map_err(|_| format!("\"{value}\": write a number, as 2.0"))?;
        }
        "jitter" => {
            options.jitter = match value {
                "none" => Jitter::None,
                "equal" => Jitter::Equal,
                "full" => Jitter::Full,
                "decorrelated" => Jitter::Decorrelated,
                _ => {
                    return Err(format!(
                        "\"{value}\": write none, equal, full or decorrelated"
                    ));
                }
            };
        }
        "random_first_delay" => options.random_first_delay = flag()?,
        "reconnect_on_disconnect" => options.reconnect_on_disconnect = flag()?,
        "retry_first_connect" => options.retry_first_connect = flag()?,
        "stable_after" => options.stable_after = duration(value)?,
        _ => return Err(format!("no such key; there are {}", KEYS.join(", "))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [
            ("500ms", 500),
            ("5s", 5000),
            ("1.5s", 1500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "", "5", "s", "-1s", "5 s", "1e3s", ".5s", "5d", "1.2.3s", "NaNs", "5sec",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration("99999999999999999999h").is_err());
        assert!(limit("0s").is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("2GiB"), Ok(1 << 31));
        for text in ["", "KiB", "-1", "1MB", "1.5MiB", "99999999999GiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn modes() {
        assert_eq!(mode("600"), Ok(0o600));
        assert_eq!(mode("0660"), Ok(0o660));
        assert_eq!(mode("0o777"), Ok(0o777));
        for text in ["", "6", "0600000", "1777", "888", "rw-", "-600", "+600"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn reconnection() {
        assert_eq!(reconnect("off"), Ok(Reconnect(None)));
        assert_eq!(
            reconnect("fleet"),
            Ok(Reconnect(Some(ReconnectOptions::fleet())))
        );
        assert_eq!(
            reconnect("default"),
            Ok(Reconnect(Some(ReconnectOptions::default())))
        );
        let all = "fleet,max_attempts=3,initial_delay=10ms,max_delay=1s,backoff_multiplier=1.5,\
                   jitter=full,random_first_delay=false,reconnect_on_disconnect=false,\
                   retry_first_connect=false, stable_after = 1s";
        let expected = ReconnectOptions {
            max_attempts: 3,
            initial_delay: Duration::from_millis(10),
            max_delay: Duration::from_secs(1),
            backoff_multiplier: 1.5,
            jitter: Jitter::Full,
            random_first_delay: false,
            reconnect_on_disconnect: false,
            retry_first_connect: false,
            stable_after: Duration::from_secs(1),
        };
        assert_eq!(reconnect(all), Ok(Reconnect(Some(expected))));
        for (text, what) in [
            ("", "expected fleet"),
            ("slow", "expected fleet"),
            ("max_delay=1s,fleet", "expected fleet"),
            ("off,max_delay=1s", "expected fleet"),
            ("attempts=3", "no such key"),
            ("max_attempts=many", "max_attempts: \"many\""),
            ("jitter=some", "write none, equal"),
            ("max_delay=5", "no duration"),
            ("backoff_multiplier=0.5", "multiplier"),
            ("retry_first_connect=yes", "true or false"),
        ] {
            let error = reconnect(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn a_value_of_reconnect_is_told_from_the_next_argument() {
        for text in ["fleet", "off", "default,jitter=full", "max_attempts=3"] {
            assert!(is_reconnect_spec(text), "{text}");
        }
        for text in [
            "tcp://127.0.0.1:5",
            "Demo.IEcho",
            "int Add(int a = 1)",
            "a=b",
            "",
        ] {
            assert!(!is_reconnect_spec(text), "{text}");
        }
    }
}
