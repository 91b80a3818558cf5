//! Events across losses: subscriptions that go on, and a state that is fetched where it was missed.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use witrpc::client::{Client, Service};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::{Server, ServiceBuilder};
use witrpc_chaos::demo::endpoint;
use witrpc_chaos::proxy::{End, Proxy};
use witrpc_chaos::watch;

const COUNTER: &str = "Demo.ICounter";
const CHANGED: &str = "event Action<long> Changed";

/// A counter that tells everybody of every change.
async fn serve(state: &Arc<AtomicI64>) -> Server {
    let (get, state) = (state.clone(), state.clone());
    let service = ServiceBuilder::open(COUNTER)
        .handle("long Get()", move |_, ()| {
            let now = get.load(Ordering::SeqCst);
            async move { Ok(now) }
        })
        .handle("void Up()", move |call, ()| {
            let now = state.fetch_add(1, Ordering::SeqCst) + 1;
            let raised = call.publisher().raise(COUNTER, CHANGED, (now,));
            async move { Ok(raised.map(drop)?) }
        });
    Server::builder()
        .listen("tcp://127.0.0.1:0")
        .service(service)
        .start()
        .await
        .unwrap()
}

#[test]
fn subscriptions_survive_cuts_and_on_reconnected_fetches_what_was_missed() {
    watch::run(async {
        let state: Arc<AtomicI64> = Arc::default();
        let server = serve(&state).await;
        let address = endpoint(&server).trim_start_matches("tcp://").to_owned();
        let proxy = Proxy::start(address.parse().unwrap(), 7);

        let mirror: Arc<AtomicI64> = Arc::default();
        let counter: Arc<OnceLock<Service>> = Arc::default();
        let builder = Client::builder(&proxy.endpoint())
            .reconnect(ReconnectOptions {
                max_attempts: 0,
                initial_delay: Duration::from_millis(1),
                max_delay: Duration::from_millis(5),
                ..ReconnectOptions::default()
            })
            .on_reconnected({
                let (mirror, counter, runtime) =
                    (mirror.clone(), counter.clone(), Handle::current());
                move || {
                    let call = counter.get().unwrap().call::<i64>("long Get()", ());
                    // If the link is lost again, the next callback asks again.
                    if let Ok(now) = runtime.block_on(call.into_future()) {
                        mirror.store(now, Ordering::SeqCst);
                    }
                }
            });
        let client = builder.build().unwrap();
        counter.set(client.service(COUNTER).unwrap()).ok().unwrap();
        let subscription = counter
            .get()
            .unwrap()
            .on_event(CHANGED, {
                let mirror = mirror.clone();
                move |event| mirror.store(event.get::<(i64,)>().unwrap().0, Ordering::SeqCst)
            })
            .unwrap();
        let mut stream = counter.get().unwrap().events(CHANGED).unwrap();
        client.connect().await.unwrap();

        // Somebody else keeps counting, past the proxy.
        let other = Client::builder(&endpoint(&server)).build().unwrap();
        other.connect().await.unwrap();
        let up = other.service(COUNTER).unwrap();
        let mut total = 0;
        for cut in 1..=30 {
            for _ in 0..5 {
                up.call::<()>("void Up()", ()).await.unwrap();
            }
            // Every other time it stays away for a while, and certainly misses something.
            let is_away = cut % 2 == 0;
            if is_away {
                proxy.down().await;
            } else {
                proxy.cut(End::Reset);
            }
            for _ in 0..5 {
                up.call::<()>("void Up()", ()).await.unwrap();
            }
            if is_away {
                proxy.up();
            }
            total += 10;
            watch::eventually("the way back", || client.stats().reconnects >= cut as u64).await;
            watch::eventually("the state", || mirror.load(Ordering::SeqCst) == total).await;
        }
        assert_eq!(state.load(Ordering::SeqCst), total);
        // Both subscriptions are alive, and none had what was raised while there was no link.
        up.call::<()>("void Up()", ()).await.unwrap();
        loop {
            let event = watch::within("an event", stream.next()).await.unwrap();
            if event.get::<(i64,)>().unwrap().0 == total + 1 {
                break;
            }
        }
        watch::eventually("the state", || mirror.load(Ordering::SeqCst) == total + 1).await;
        let stats = subscription.stats();
        assert_eq!((stats.dropped, stats.panics), (0, 0));
        assert!(stats.delivered <= total as u64 + 1 - 15 * 5, "{stats:?}");
        drop(counter);
        client.close();
    });
}

#[test]
fn a_server_that_comes_back_finds_the_subscriptions_where_they_were() {
    watch::run(async {
        let state: Arc<AtomicI64> = Arc::default();
        let mut server = serve(&state).await;
        let place = endpoint(&server);
        let client = Client::builder(&place)
            .reconnect(ReconnectOptions {
                max_attempts: 0,
                initial_delay: Duration::from_millis(1),
                max_delay: Duration::from_millis(5),
                ..ReconnectOptions::default()
            })
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let counter = client.service(COUNTER).unwrap();
        let mut stream = counter.events(CHANGED).unwrap();
        for life in 0..10 {
            server.publisher().raise(COUNTER, CHANGED, (life,)).unwrap();
            let event = watch::within("an event", stream.next()).await.unwrap();
            assert_eq!(event.get::<(i64,)>().unwrap(), (life,));
            drop(server);
            watch::within("the loss", client.wait_for(State::Reconnecting))
                .await
                .unwrap();
            server = Server::builder()
                .listen(&place)
                .service(ServiceBuilder::open(COUNTER))
                .start()
                .await
                .unwrap();
            watch::within("the way back", client.wait_for(State::Connected))
                .await
                .unwrap();
            watch::eventually("its end of it", || server.connections().len() == 1).await;
        }
    });
}
