//! The proxy does what its toxics say. Without this, the other tests would show nothing.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use witrpc_chaos::proxy::{End, Limit, Proxy, Slicer, Toxic, Toxics};
use witrpc_chaos::watch;

/// A server that sends back what it gets, behind a proxy.
async fn echo() -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
    Proxy::start(address, 1)
}

async fn round_trip(stream: &mut TcpStream, bytes: &[u8]) {
    let mut back = vec![0; bytes.len()];
    let (mut read, mut write) = stream.split();
    let (sent, received) = watch::within("the echo", async {
        tokio::join!(write.write_all(bytes), read.read_exact(&mut back))
    })
    .await;
    sent.unwrap();
    received.unwrap();
    assert!(back == bytes, "other bytes came back");
}

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 251) as u8).collect()
}

#[test]
fn without_toxics_bytes_and_the_end_of_the_stream_pass() {
    watch::run(async {
        let proxy = echo().await;
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        round_trip(&mut stream, &noise(1_000_000)).await;
        stream.shutdown().await.unwrap();
        let end = watch::within("the end", stream.read(&mut [0; 1])).await;
        assert_eq!(end.unwrap(), 0);
        drop(stream);
        watch::eventually("the connection is gone", || proxy.open() == 0).await;
        assert_eq!(proxy.accepted(), 1);
    });
}

#[test]
fn latency_bandwidth_and_slicing_delay_bytes_and_keep_their_order() {
    watch::run(async {
        let proxy = echo().await;
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        for (toxic, bytes, least) in [
            (
                Toxic {
                    latency: Duration::from_millis(40),
                    jitter: Duration::from_millis(20),
                    ..Toxic::default()
                },
                noise(100_000),
                Duration::from_millis(80),
            ),
            (
                Toxic {
                    bandwidth: Some(1_000_000),
                    ..Toxic::default()
                },
                noise(100_000),
                Duration::from_millis(90),
            ),
            (
                Toxic {
                    slicer: Some(Slicer {
                        average: 3,
                        delay: Duration::from_micros(1),
                    }),
                    ..Toxic::default()
                },
                noise(600),
                Duration::from_millis(90),
            ),
        ] {
            proxy.set(Toxics::both(toxic));
            let begun = Instant::now();
            round_trip(&mut stream, &bytes).await;
            assert!(
                begun.elapsed() >= least,
                "{:?} for {least:?}",
                begun.elapsed()
            );
        }
    });
}

#[test]
fn a_limit_lets_exactly_so_many_bytes_through_in_either_direction() {
    watch::run(async {
        let proxy = echo().await;
        for n in [0, 1, 99] {
            let limit = |end| Toxic {
                limit: Some(Limit { bytes: n, end }),
                ..Toxic::default()
            };
            for up in [false, true] {
                let mut toxics = Toxics::default();
                let toxic = limit(End::Close);
                *if up { &mut toxics.up } else { &mut toxics.down } = toxic;
                proxy.set(toxics);
                let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
                stream.write_all(&noise(100)).await.unwrap();
                let mut back = Vec::new();
                let end = watch::within("the end", stream.read_to_end(&mut back)).await;
                end.unwrap();
                // What was let through to the server may not have come back before the end.
                assert!(back.len() as u64 == n || up && back.len() as u64 <= n);
                assert!(noise(100).starts_with(&back));
            }
        }
    });
}

#[test]
fn a_cut_resets_both_ends() {
    watch::run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap(), 1);
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        round_trip_one_way(&mut client, &mut server).await;
        proxy.cut(End::Reset);
        for end in [&mut client, &mut server] {
            let read = watch::within("the reset", end.read(&mut [0; 1])).await;
            assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
    });
}

async fn round_trip_one_way(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(b"x").await.unwrap();
    let read = watch::within("a byte", to.read_exact(&mut [0; 1])).await;
    read.unwrap();
}

#[test]
fn a_black_hole_swallows_and_keeps_the_connection() {
    watch::run(async {
        let proxy = echo().await;
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        round_trip(&mut stream, b"before").await;
        proxy.set(Toxics {
            up: Toxic {
                black_hole: true,
                ..Toxic::default()
            },
            down: Toxic::default(),
        });
        stream.write_all(b"lost").await.unwrap();
        let mut byte = [0; 1];
        let silence = tokio::time::timeout(Duration::from_millis(100), stream.read(&mut byte));
        assert!(silence.await.is_err());
        assert_eq!(proxy.open(), 1);
    });
}

#[test]
fn a_slow_close_passes_the_end_on_later() {
    watch::run(async {
        let proxy = echo().await;
        proxy.set(Toxics {
            up: Toxic::default(),
            down: Toxic {
                slow_close: Duration::from_millis(100),
                ..Toxic::default()
            },
        });
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        round_trip(&mut stream, b"x").await;
        let begun = Instant::now();
        stream.shutdown().await.unwrap();
        let end = watch::within("the end", stream.read(&mut [0; 1])).await;
        assert_eq!(end.unwrap(), 0);
        assert!(begun.elapsed() >= Duration::from_millis(100));
    });
}

#[test]
fn down_refuses_and_up_accepts_again_at_the_same_port() {
    watch::run(async {
        let proxy = echo().await;
        for _ in 0..20 {
            let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
            round_trip(&mut stream, b"x").await;
            proxy.down().await;
            let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            let read = watch::within("the reset", stream.read(&mut [0; 1])).await;
            assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
            proxy.up();
        }
    });
}
