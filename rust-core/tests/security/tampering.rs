//! Damage on the way: every bit of sealed messages, messages that are repeated, swapped, lost or cut.
//! Each ends the connection, the calls on it end as what they are, and the client is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use uuid::Uuid;
use witrpc::client::{Client, RetryPolicy};
use witrpc::resilience::engine::{
    Action, Answer, CallSpec, Engine, EngineOptions, LinkId, Loss, State, Timeout,
};
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::resilience::retry::{Repeat, RetryOptions};
use witrpc::security::{Keys, OVERHEAD};
use witrpc::server::{Server, ServiceBuilder};
use witrpc::session::{ServerReceived, ServerSession};
use witrpc::time::Time;
use witrpc::wire::{Arguments, Envelope, Response};
use witrpc::{ErrorCode, Outcome};

use crate::proxy::{self, Passing, Side};
use crate::{KEY, bodies};

/// What is sent on instead of a frame.
type Meddle<'a> = &'a mut dyn FnMut(Side, BytesMut) -> Vec<BytesMut>;

/// A client's engine and the server at the other end of its present link, without a socket and with
/// a clock that moves when told to.
struct World {
    engine: Engine<usize>,
    now: Time,
    opened: Option<LinkId>,
    server: Option<(LinkId, ServerSession)>,
    links: usize,
    executed: usize,
    done: Vec<(usize, Result<Answer, witrpc::Error>)>,
}

impl World {
    fn new() -> Self {
        let options = EngineOptions {
            reconnect: Some(ReconnectOptions::default()),
            retry: Some(RetryOptions::default()),
            // With pings there would always be something left to wait for.
            keep_alive: None,
            ..EngineOptions::default()
        };
        Self {
            engine: Engine::new(options, [3; 32]),
            now: Time::ZERO,
            opened: None,
            server: None,
            links: 0,
            executed: 0,
            done: Vec::new(),
        }
    }

    fn connected() -> Self {
        let mut world = Self::new();
        world.engine.connect(world.now);
        world.run(&mut |_, body| vec![body]);
        assert_eq!(world.engine.state(), State::Connected);
        world
    }

    fn call(&mut self, tag: usize, repeat: Repeat) {
        let spec = CallSpec {
            contract_id: 1,
            method_id: 2,
            method_name: Arc::from("Add"),
            arguments: Arguments::NONE,
            types: None,
            repeat,
            invocation_id: None,
            timeout: Timeout::Default,
            trace_context: None,
        };
        self.engine.call(self.now, spec, tag).unwrap();
    }

    /// Connects, answers and moves frames until nothing moves.
    fn run(&mut self, meddle: Meddle<'_>) {
        loop {
            self.act();
            if let Some(link) = self.opened.take() {
                let keys = Keys::from_bytes(&[self.links as u8; 32], &[9; 16]).unwrap();
                self.links += 1;
                let session = ServerSession::encrypted(Uuid::from_u128(1), keys);
                self.server = Some((link, session));
                self.engine
                    .link_opened_encrypted(link, "token", KEY.clone());
            }
            let Some((link, mut server)) = self.server.take() else {
                return;
            };
            let requests = bodies(self.engine.take_output(self.now, link));
            let mut moved = !requests.is_empty();
            let mut closes = false;
            let requests = requests
                .into_iter()
                .flat_map(|body| meddle(Side::Client, body));
            for body in requests {
                match server.receive(body) {
                    Ok(
                        ServerReceived::Nothing
                        | ServerReceived::Cancel(_)
                        | ServerReceived::Pong(_)
                        | ServerReceived::Leaves,
                    ) => {}
                    Ok(ServerReceived::Authorize { token, .. }) => {
                        assert_eq!(token, "token");
                        server.authorize(true, None).unwrap();
                    }
                    Ok(ServerReceived::Request(id, _)) => {
                        self.executed += 1;
                        let mut answer = Vec::new();
                        Response::ok(Some(vec![b'5'; 20].into())).encode(&mut answer);
                        server.respond(id, &answer);
                    }
                    Err(_) => {
                        closes = true;
                        break;
                    }
                }
            }
            let answers = bodies(server.take_output());
            moved |= !answers.is_empty();
            self.server = Some((link, server));
            for body in answers
                .into_iter()
                .flat_map(|body| meddle(Side::Server, body))
            {
                self.engine.receive(self.now, link, body);
            }
            if closes {
                self.server = None;
                self.engine.link_lost(self.now, link, Loss::Closed, 0);
                moved = true;
            }
            if !moved {
                self.act();
                return;
            }
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Open { link, .. } => self.opened = Some(link),
                Action::Close { link } => {
                    self.server = self.server.take().filter(|(id, _)| *id != link);
                }
                Action::Complete { tag, result } => self.done.push((tag, result)),
                _ => {}
            }
        }
    }

    /// Lets time pass until nothing is left to wait for; nobody meddles any more.
    fn settle(&mut self) {
        while let Some(at) = self.engine.next_wakeup() {
            self.now = at;
            self.engine.tick(at);
            self.run(&mut |_, body| vec![body]);
        }
    }

    fn result(&self, tag: usize) -> &Result<Answer, witrpc::Error> {
        let mut results = self.done.iter().filter(|(t, _)| *t == tag);
        let result = &results.next().unwrap().1;
        assert!(results.next().is_none(), "a call ended twice");
        result
    }
}

/// Flips one bit of the first frame of one side.
fn flip(side: Side, at: usize, bit: u8) -> impl FnMut(Side, BytesMut) -> Vec<BytesMut> {
    let mut first = true;
    move |from, mut body| {
        if from == side && std::mem::take(&mut first) {
            body[at] ^= 1 << bit;
        }
        vec![body]
    }
}

/// Size of the body of a request and of an answer in this world.
fn sizes() -> [usize; 2] {
    let mut world = World::connected();
    world.call(0, Repeat::Never);
    let mut sizes = [0; 2];
    world.run(&mut |from, body| {
        sizes[usize::from(from == Side::Server)] = body.len();
        vec![body]
    });
    sizes
}

#[test]
fn no_bit_of_a_sealed_message_can_be_flipped() {
    for (side, size) in [Side::Client, Side::Server].into_iter().zip(sizes()) {
        assert!(size > Envelope::OVERHEAD + OVERHEAD + 20);
        for at in Envelope::OVERHEAD..size {
            for bit in 0..8 {
                let mut world = World::connected();
                world.call(1, Repeat::Never);
                world.call(2, Repeat::Idempotent);
                world.run(&mut flip(side, at, bit));
                // At once, without a wait for anything.
                assert_eq!(world.engine.state(), State::Reconnecting, "{at} {bit}");
                let error = world.result(1).as_ref().unwrap_err();
                assert_eq!(error.outcome(), Outcome::Unknown);
                assert_eq!(error.code(), ErrorCode::Transport);
                world.settle();
                assert_eq!(world.engine.state(), State::Connected);
                assert!(world.result(2).is_ok());
                assert_eq!((world.links, world.done.len()), (2, 2));
                // What was damaged on the way to the server did not run.
                let executed = [1, 3][usize::from(side == Side::Server)];
                assert_eq!(world.executed, executed);
            }
        }
    }
}

/// Id, type and lengths are not protected (section 12.5): what becomes of such a message is not
/// known, but never an answer that is not the call's own.
#[test]
fn a_bit_of_the_envelope_changes_no_answer() {
    for side in [Side::Client, Side::Server] {
        for at in 0..Envelope::OVERHEAD {
            for bit in 0..8 {
                let mut world = World::connected();
                world.call(1, Repeat::Never);
                world.call(2, Repeat::Idempotent);
                world.run(&mut flip(side, at, bit));
                world.settle();
                match world.result(1) {
                    // A request without data, the server says; and so did not run.
                    Err(error) if error.code() == ErrorCode::BadRequest => {
                        assert_eq!((side, at, bit), (Side::Client, 0, 0));
                    }
                    Err(error) => assert_eq!(error.outcome(), Outcome::Unknown, "{at} {bit}"),
                    Ok(_) => {}
                }
                let answer = world.result(2).as_ref().unwrap();
                assert_eq!(answer.data.as_deref(), Some(&[b'5'; 20][..]));
            }
        }
    }
}

#[test]
fn a_damaged_handshake_is_tried_again_and_a_damaged_key_exchange_ends() {
    for side in [Side::Client, Side::Server] {
        // The first sealed frame of each side is its second one: the token, and its answer.
        for bit in 0..8 {
            for at in [0, 10, 24, 30] {
                let mut world = World::new();
                let mut numbers = [0; 2];
                world.engine.connect(world.now);
                world.run(&mut |_, body| vec![body]);
                world.engine.reconnect(world.now);
                world.run(&mut |from, mut body| {
                    let number = &mut numbers[usize::from(from == Side::Server)];
                    if from == side && *number == 1 {
                        body[Envelope::OVERHEAD + at] ^= 1 << bit;
                    }
                    *number += 1;
                    vec![body]
                });
                assert_eq!(world.engine.state(), State::Reconnecting);
                world.settle();
                assert_eq!(world.engine.state(), State::Connected);
            }
        }
    }
    for at in (0..256).step_by(17) {
        let mut world = World::new();
        world.engine.connect(world.now);
        world.run(&mut flip(Side::Server, Envelope::OVERHEAD + at, 3));
        assert_eq!(world.engine.state(), State::Failed);
        // A bit in the count of members shifts where they are read: what was sealed is then taken for
        // something else, now and then for a reply that makes no sense.
        let code = world.engine.last_failure().unwrap().code();
        let said = matches!(code, ErrorCode::Encryption | ErrorCode::Protocol);
        assert!(said, "{at}: {code:?}");
        assert_eq!(world.executed, 0);
    }
}

/// Three calls are under way; something is done to the answers or requests.
fn three_calls(side: Side, mut change: impl FnMut(usize, BytesMut) -> Vec<BytesMut>) -> World {
    let mut world = World::connected();
    for tag in 1..=3 {
        world.call(tag, Repeat::Never);
    }
    let mut number = 0;
    world.run(&mut |from, body| {
        if from != side {
            return vec![body];
        }
        number += 1;
        change(number, body)
    });
    world
}

/// Which of the three calls were answered; the others have an unknown outcome, the connection has
/// ended, and the client is back.
fn answered(mut world: World) -> Vec<usize> {
    assert_eq!(world.engine.state(), State::Reconnecting);
    let mut answered = Vec::new();
    for tag in 1..=3 {
        match world.result(tag) {
            Ok(_) => answered.push(tag),
            Err(error) => assert_eq!(error.outcome(), Outcome::Unknown),
        }
    }
    world.settle();
    assert_eq!((world.engine.state(), world.links), (State::Connected, 2));
    world.call(4, Repeat::Never);
    world.run(&mut |_, body| vec![body]);
    assert!(world.result(4).is_ok());
    answered
}

#[test]
fn repeated_swapped_lost_and_cut_messages_end_the_connection() {
    let mut kept = BytesMut::new();
    let repeated = three_calls(Side::Server, |number, body| match number {
        2 => vec![body.clone(), body],
        _ => vec![body],
    });
    assert_eq!(answered(repeated), [1, 2]);
    let swapped = three_calls(Side::Server, |number, body| match number {
        1 => {
            kept = body;
            vec![]
        }
        2 => vec![body, std::mem::take(&mut kept)],
        _ => vec![body],
    });
    assert_eq!(answered(swapped), [0; 0]);
    let lost = three_calls(Side::Server, |number, body| match number {
        2 => vec![],
        _ => vec![body],
    });
    assert_eq!(answered(lost), [1]);
    for cut in [1, 20, 30] {
        let cut = three_calls(Side::Server, |number, body| match number {
            2 => vec![shortened(&body, cut)],
            _ => vec![body],
        });
        assert_eq!(answered(cut), [1]);
    }
    for (change, executed) in [(0, 2), (1, 0), (2, 1), (3, 1)] {
        let mut kept = BytesMut::new();
        let world = three_calls(Side::Client, |number, body| match (number, change) {
            (2, 0) => vec![body.clone(), body],
            (1, 1) => {
                kept = body;
                vec![]
            }
            (2, 1) => vec![body, std::mem::take(&mut kept)],
            (2, 2) => vec![],
            (2, 3) => vec![shortened(&body, 5)],
            _ => vec![body],
        });
        assert_eq!(world.executed, executed);
        assert_eq!(answered(world).len(), executed);
    }
}

/// A message whose data has lost its last bytes, with lengths that are right.
fn shortened(body: &BytesMut, by: usize) -> BytesMut {
    let mut envelope = Envelope::decode(&body.clone().freeze()).unwrap().unwrap();
    let data = envelope.data.unwrap();
    envelope.data = Some(data.slice(..data.len() - by));
    crate::body(&envelope)
}

/// The same over real sockets: client, server, and something between them.
#[tokio::test]
async fn over_a_socket_too_the_connection_ends_and_the_client_is_back() {
    type Deed = fn(BytesMut) -> Vec<BytesMut>;
    let flipped: Deed = |mut body| {
        let last = body.len() - 1;
        body[last] ^= 1;
        vec![body]
    };
    let repeated: Deed = |body| vec![body.clone(), body];
    let lost: Deed = |_| vec![];
    for side in [Side::Client, Side::Server] {
        for deed in [flipped, repeated, lost] {
            let executions = Arc::new(AtomicUsize::new(0));
            let service = ServiceBuilder::open("Demo.IEcho").handle("int Next()", {
                let executions = executions.clone();
                move |_, ()| {
                    let n = executions.fetch_add(1, Ordering::SeqCst);
                    async move { Ok(n) }
                }
            });
            let server = Server::builder()
                .listen("tcp://127.0.0.1:0")
                .encryption(true)
                .service(service)
                .start()
                .await
                .unwrap();
            let armed = Arc::new(AtomicBool::new(false));
            let meddle = {
                let armed = armed.clone();
                move |Passing { from, body, .. }: Passing| match from == side
                    && armed.swap(false, Ordering::SeqCst)
                {
                    true => deed(body),
                    false => vec![body],
                }
            };
            let endpoint = proxy::start(&server.endpoints()[0].to_string(), meddle).await;
            let client = Client::builder(&endpoint)
                .encryption(true)
                .reconnect(ReconnectOptions {
                    initial_delay: Duration::from_millis(1),
                    ..ReconnectOptions::default()
                })
                .retry(
                    RetryPolicy::new()
                        .initial_delay(Duration::from_millis(1))
                        .mark_deduplicated(["Next"]),
                )
                .build()
                .unwrap();
            client.connect().await.unwrap();
            let echo = client.service("Demo.IEcho").unwrap();
            let next = || echo.call::<usize>("int Next()", ()).into_future();
            assert_eq!(next().await.unwrap(), 0);
            armed.store(true, Ordering::SeqCst);
            // Two at once, so that the loss of one shows in the next.
            let (one, two) = tokio::join!(next(), next());
            let mut results = [one.unwrap(), two.unwrap()];
            results.sort_unstable();
            assert_eq!(results, [1, 2]);
            assert_eq!(next().await.unwrap(), 3);
            assert_eq!(executions.load(Ordering::SeqCst), 4);
            client.wait_for(State::Connected).await.unwrap();
            assert!(client.stats().reconnects <= 1);
        }
    }
}
