//! A journal on a disk that gets full: calls are refused before they run, those that run are answered, and nothing that was answered is forgotten.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;
use witrpc::ErrorCode;
use witrpc::client::{Client, Service};
use witrpc::resilience::dedup::DedupOptions;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::store::{CallStore, Claim, Journal, StoredCall};
use witrpc_chaos::demo::ECHO;
use witrpc_chaos::served::{Scratch, Served};
use witrpc_chaos::watch;

/// A small file system in memory.
struct SmallDisk {
    at: Scratch,
}

impl SmallDisk {
    /// `None` (and a line that says why) where it can't be had.
    fn mount(test: &str, size: &str) -> Option<Self> {
        let at = Scratch::new();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(at.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { at }),
            Ok(output) => {
                watch::skip(test, String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                watch::skip(test, &format!("no command `mount`: {error}"));
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.at.path()
    }

    fn rest(&self) -> PathBuf {
        self.path().join("rest")
    }

    /// Somebody else takes what is left.
    fn fill(&self) {
        let mut file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(self.rest())
            .unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
    }

    fn empty(&self) {
        std::fs::remove_file(self.rest()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

async fn count(echo: &Service, id: u128) -> witrpc::Result<usize> {
    let call = echo.call::<usize>("int CountUp(int)", (1,));
    call.invocation_id(Uuid::from_u128(id)).await
}

/// Calls until one is refused. Returns what was answered, and the id of the one that was not.
async fn until_refused(echo: &Service, from: u128) -> (Vec<(u128, usize)>, u128) {
    let mut answered = Vec::new();
    for id in from.. {
        match count(echo, id).await {
            Ok(n) => answered.push((id, n)),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::Overloaded, "{error:?}");
                return (answered, id);
            }
        }
        assert!(answered.len() < 50_000, "the disk is never full");
    }
    unreachable!()
}

#[test]
fn a_full_disk_refuses_calls_before_they_run_and_loses_none() {
    watch::run(async {
        let Some(disk) = SmallDisk::mount("a journal on a full disk", "4m") else {
            return;
        };
        let directory = disk.path().join("journal");
        let mut server = Served::start(&["--journal", directory.to_str().unwrap()]);
        let client = Client::builder(&server.endpoint())
            .reconnect(ReconnectOptions {
                max_attempts: 0,
                initial_delay: Duration::from_millis(1),
                max_delay: Duration::from_millis(10),
                ..ReconnectOptions::default()
            })
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        assert_eq!(count(&echo, 1).await.unwrap(), 1);
        let slow = tokio::spawn({
            let echo = echo.clone();
            async move {
                let call = echo.call::<usize>("Task<int> SlowAsync(int,int)", (1500, 8));
                call.await
            }
        });
        watch::eventually("the slow call", || {
            server.trace().of_method("SlowAsync") == 1
        })
        .await;
        disk.fill();
        let (answered, refused) = until_refused(&echo, 2).await;
        // The slow one has begun: room was kept for its answer.
        assert_eq!(watch::within("its end", slow).await.unwrap().unwrap(), 8);
        assert_eq!(server.trace().of(Uuid::from_u128(refused)), 0);
        // What is known is answered.
        assert_eq!(count(&echo, 1).await.unwrap(), 1);

        // It starts all the same, and knows what it knew.
        server.restart();
        watch::eventually("the next life", || client.stats().reconnects == 1).await;
        for (id, n) in [(1, 1)].into_iter().chain(answered.clone()).step_by(50) {
            assert_eq!(count(&echo, id).await.unwrap(), n, "{id}");
        }
        disk.fill();
        let (more, refused_again) = until_refused(&echo, 1_000_000).await;
        assert_eq!(server.trace().of(Uuid::from_u128(refused_again)), 0);

        disk.empty();
        let mut n = None;
        while n.is_none() {
            n = count(&echo, refused).await.ok();
        }
        assert_eq!(server.trace().of(Uuid::from_u128(refused)), 1);
        server.restart();
        watch::eventually("the last life", || client.stats().reconnects == 2).await;
        let all = answered
            .into_iter()
            .chain(more)
            .chain([(refused, n.unwrap())]);
        for (id, n) in all.step_by(20) {
            assert_eq!(count(&echo, id).await.unwrap(), n, "{id}");
        }
        assert_eq!(server.trace().repeated(), []);
    });
}

#[test]
fn an_answer_that_finds_no_room_is_unknown_from_then_on() {
    watch::run(async {
        let Some(disk) = SmallDisk::mount("a journal on a full disk", "4m") else {
            return;
        };
        let call = |id: u128| StoredCall {
            principal: "".into(),
            invocation: Uuid::from_u128(id),
            numbered: None,
            repeated: false,
            elsewhere: false,
            epoch: 0,
            digest: [1; 16],
            not_executed: false,
        };
        let open = async || {
            let journal = Journal::new(disk.path().join("journal"), DedupOptions::default());
            journal.open().await.unwrap();
            journal
        };
        let run = async |journal: &Journal, id| match journal.begin(&call(id)).await {
            Ok(Claim::Run(fence)) => fence,
            other => panic!("{id} was {other:?}"),
        };
        let journal = open().await;
        let fence = run(&journal, 1).await;
        let small = run(&journal, 2).await;
        disk.fill();
        let big = Bytes::from(vec![7; 900_000]);
        let error = journal.finish(&call(1), fence, Some(&big)).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("No space left"), "{error}");
        let unknown = async |journal: &Journal, id| {
            let claim = journal.begin(&call(id)).await.unwrap();
            assert_eq!(claim, Claim::OutcomeUnknown, "{id}");
        };
        unknown(&journal, 1).await;
        assert!(journal.begin(&call(3)).await.is_err());
        disk.empty();
        // It is tried again after a moment.
        let mut claim = journal.begin(&call(3)).await;
        while claim.is_err() {
            claim = journal.begin(&call(3)).await;
        }
        assert!(matches!(claim, Ok(Claim::Run(_))));
        let answer = Bytes::from_static(b"two");
        journal
            .finish(&call(2), small, Some(&answer))
            .await
            .unwrap();
        journal.close().await;
        let journal = open().await;
        unknown(&journal, 1).await;
        unknown(&journal, 3).await;
        let two = journal.begin(&call(2)).await.unwrap();
        assert_eq!(two, Claim::Replay(answer));
        journal.close().await;
    });
}
