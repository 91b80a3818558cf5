using System.Collections.Concurrent;

namespace WitRpc.Native.Tests;

/// <summary>Events that are meant for some: the caller, the others, a group, a principal, one connection.</summary>
public class AudienceTests
{
    [Fact]
    public async Task EventsReachThoseWhoAreMeant()
    {
        var rooms = new Rooms();
        var came = new ConcurrentQueue<WitConnection>();
        var left = new ConcurrentQueue<WitConnection>();
        var logger = new MemoryLogger();
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IRooms>(rooms)
            .WithAccessTokenValidator(c => ValueTask.FromResult(WitVerdict.Accept(c.Token)))
            .WithConnectionCallbacks(
                connection =>
                {
                    connection.Join("of " + connection.Principal);
                    came.Enqueue(connection);
                    throw new InvalidOperationException("thrown by a callback");
                },
                left.Enqueue)
            .WithLogger(logger));
        await server.StartAsync();
        await using Member ann = await Member.EnterAsync(server, "ann");
        await using Member twin = await Member.EnterAsync(server, "ann");
        Member bob = await Member.EnterAsync(server, "bob");
        Assert.Equal(["ann", "ann", "bob"], came.Select(c => c.Principal));
        Assert.All(came, c => Assert.Contains("127.0.0.1:", c.Peer));
        Assert.Throws<WitRpcException>(() => came.First().Join("too late"));
        Assert.Equal(3, logger.Lines.Count(l => l.Error?.Message == "thrown by a callback"));
        Guid annId = ann.Proxy.Id();
        Assert.Equal(came.First().Id, annId);

        Assert.Equal(1, server.ToConnection(annId).Raise(() => rooms.Say(1)));
        Assert.Equal(2, server.ToPrincipal("ann").Raise(() => rooms.Say(2)));
        Assert.Equal(1, server.ToGroup("of bob").Raise(() => rooms.Say(3)));
        Assert.Equal(2, server.ToOthers(annId).Raise(() => rooms.Say(4)));
        Assert.Equal(3, server.ToAll().Raise(() => rooms.Say(5)));
        Assert.Equal(0, server.ToGroup("nobody's").Raise(() => rooms.Say(99)));
        ann.Proxy.ToCaller(6);
        ann.Proxy.ToOthers(7);
        ann.Proxy.Join("red");
        server.AddToGroup(bob.Proxy.Id(), "red");
        Assert.Equal(4, server.ToGroup("red").Raise(() =>
        {
            rooms.Say(8);
            server.ToPrincipal("ann").Raise(() => rooms.Say(9)); // the inner one counts within it
            rooms.Say(10);
        }));
        ann.Proxy.Leave("red");
        server.RemoveFromGroup(bob.Proxy.Id(), "red");
        Assert.Equal(0, server.ToGroup("red").Raise(() => rooms.Say(99)));
        Assert.Throws<InvalidOperationException>(() => server.ToGroup("red").Raise(() => throw new InvalidOperationException()));
        rooms.Say(11); // to all again
        await ann.HeardAsync(1, 2, 5, 6, 8, 9, 10, 11);
        await twin.HeardAsync(2, 4, 5, 7, 9, 11);
        await bob.HeardAsync(3, 4, 5, 7, 8, 10, 11);
        await bob.DisposeAsync();
        await Support.Until(() => left.Count == 1, "it is told that bob has left");
        Assert.Equal("bob", left.First().Principal);
    }

    [Fact]
    public async Task AServiceOfTwoServersReachesThoseOfTheOneThatIsMeant()
    {
        var rooms = new Rooms();
        WitServer Serve() => WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IRooms>(rooms));
        await using WitServer one = Serve();
        await using WitServer other = Serve();
        await one.StartAsync();
        await other.StartAsync();
        await using Member ann = await Member.EnterAsync(one, "");
        await using Member bob = await Member.EnterAsync(other, "");
        Assert.Equal(1, one.ToAll().Raise(() => rooms.Say(1)));
        rooms.Say(2);
        await ann.HeardAsync(1, 2);
        await bob.HeardAsync(2);
    }

    public interface IRooms
    {
        event Action<int> Said;

        Guid Id();

        void Join(string room);

        void Leave(string room);

        void ToCaller(int number);

        void ToOthers(int number);
    }

    private sealed class Rooms : IRooms
    {
        public event Action<int>? Said;

        private static WitServerCall Call => WitServerCall.Current!;

        public void Say(int number) => Said?.Invoke(number);

        public Guid Id() => Call.ConnectionId;

        public void Join(string room) => Call.Join(room);

        public void Leave(string room) => Call.Leave(room);

        public void ToCaller(int number) => Call.Caller.Raise(() => Say(number));

        public void ToOthers(int number) => Call.Others.Raise(() => Say(number));
    }

    private sealed class Member(WitClient client) : IAsyncDisposable
    {
        private readonly ConcurrentQueue<int> heard = new();

        internal IRooms Proxy { get; } = client.GetService<IRooms>();

        internal static async Task<Member> EnterAsync(WitServer server, string token)
        {
            WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).WithAccessToken(token));
            await client.ConnectAsync().InTime();
            var member = new Member(client);
            member.Proxy.Said += member.heard.Enqueue;
            return member;
        }

        internal async Task HeardAsync(params int[] numbers)
        {
            await Support.Until(() => heard.Count >= numbers.Length, $"heard {string.Join(", ", heard)}, expected {string.Join(", ", numbers)}");
            Assert.Equal(numbers, heard);
        }

        public ValueTask DisposeAsync() => client.DisposeAsync();
    }
}
