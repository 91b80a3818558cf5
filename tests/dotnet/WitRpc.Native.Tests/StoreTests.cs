using Demo;

namespace WitRpc.Native.Tests;

/// <summary>Servers that share a store: what one has executed, no other one executes again.</summary>
public class StoreTests
{
    [Fact]
    public async Task ACallThatOneServerExecutedIsAnsweredByAnother()
    {
        string? program = Environment.GetEnvironmentVariable("PATH")!.Split(':').SelectMany(f => (string[])[Path.Combine(f, "redis-server"), Path.Combine(f, "valkey-server")]).FirstOrDefault(File.Exists);
        if (program is null)
        {
            Assert.SkipWhen(Environment.GetEnvironmentVariable("WITRPC_REQUIRE_ALL") != "1", "no redis-server and no valkey-server");
            Assert.Fail("no redis-server and no valkey-server, and nothing may be skipped");
        }
        string folder = Directory.CreateTempSubdirectory("witrpc-net-").FullName;
        string socket = Path.Combine(folder, "redis.sock");
        (OtherProcess redis, _) = await OtherProcess.StartAsync(program, "eady to accept connections", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder);
        await using (redis)
        {
            WitServer Serve(string url) => WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0")
                .WithService<IEcho>(new EchoService(), durable: nameof(IEcho.CountUp))
                .WithRedisStore(url, r => (r.Prefix, r.Lease) = ("tests:", TimeSpan.FromSeconds(1))));
            await using WitServer one = Serve($"redis+unix://{socket}");
            await using WitServer other = Serve($"redis+unix://{socket}");
            await one.StartAsync();
            await other.StartAsync();
            var id = new WitCallOptions { InvocationId = Guid.NewGuid() };
            foreach (WitServer server in (WitServer[])[one, other])
            {
                await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]));
                await client.ConnectAsync().InTime();
                Assert.Equal(3, client.GetService<IEcho>(id).CountUp(3));
            }
            Assert.Equal((1, 0), (one.Statistics.Executed, other.Statistics.Executed));
            Assert.Equal(WitErrorCode.InvalidArgument, (await Assert.ThrowsAsync<WitRpcException>(Serve("redis+unix:///nobody/listens/here").StartAsync)).Code);
        }
        Directory.Delete(folder, recursive: true);
    }
}
