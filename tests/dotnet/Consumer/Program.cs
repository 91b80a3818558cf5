// Server, client and health endpoint from the packages alone: a call, an event, an outage that is survived.
using System.Net;
using System.Text.Json.Serialization;
using System.Threading.Channels;
using Consumer;
using MemoryPack;
using WitRpc.Native;

var watchdog = new CancellationTokenSource(TimeSpan.FromSeconds(60)).Token;
var orders = new Orders();
WitServer server = await ServeAsync("tcp://127.0.0.1:0");
string endpoint = server.Endpoints[0];

var builder = WebApplication.CreateSlimBuilder(args);
builder.WebHost.UseUrls("http://127.0.0.1:0");
builder.Services.AddWitRpcClient("MainClient", options =>
{
    options.WithEndpoint(endpoint);
    options.WithMemoryPack();
    options.WithEncryption();
    options.WithAccessToken("secret");
    options.WithAutoReconnect(r => (r.MaxAttempts, r.InitialDelay, r.MaxDelay) = (0, TimeSpan.FromMilliseconds(20), TimeSpan.FromMilliseconds(100)));
    options.WithRetryPolicy(r => r.MarkDeduplicated(nameof(IOrders.Place)));
});
builder.Services.AddWitRpcService<IOrders>("MainClient");
builder.Services.AddHealthChecks().AddWitRpcClient("MainClient");
var app = builder.Build();
app.MapHealthChecks("/health");
await app.StartAsync(watchdog);
using var http = new HttpClient { BaseAddress = new Uri(app.Urls.First()) };

await UntilAsync("Healthy", HttpStatusCode.OK);
var proxy = app.Services.GetRequiredService<IOrders>();
var placed = Channel.CreateUnbounded<Order>();
proxy.Placed += order => placed.Writer.TryWrite(order);
Check(proxy.Place(new Order { Id = 1, What = "tea" }) == 1, "a call");
Check(await proxy.EchoAsync("é") == "é", "a generic call");
Check((await placed.Reader.ReadAsync(watchdog)).What == "tea", "an event");

await server.DisposeAsync();
await UntilAsync("Degraded", HttpStatusCode.OK);
Task<int> waiting = Task.Run(() => proxy.Place(new Order { Id = 2, What = "cake" }));
server = await ServeAsync(endpoint);
Check(await waiting.WaitAsync(watchdog) == 2, "a call that outlives the outage");
Check((await placed.Reader.ReadAsync(watchdog)).Id == 2, "an event after the outage");
await UntilAsync("Healthy", HttpStatusCode.OK);
await app.StopAsync(watchdog);
await app.DisposeAsync();
await server.DisposeAsync();

// JSON without reflection.
server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithJson(Json.Default).WithService<IOrders>(orders));
await server.StartAsync();
await using (WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).WithJson(Json.Default)))
{
    await client.ConnectAsync(watchdog);
    Check(client.GetService<IOrders>().Place(new Order { Id = 3 }) == 3, "a call in JSON");
}
await server.DisposeAsync();
Console.WriteLine("all is well");

async Task<WitServer> ServeAsync(string where)
{
    WitServer made = WitServerBuilder.Build(o => o.WithEndpoint(where).WithMemoryPack().WithEncryption().WithAccessToken("secret").WithService<IOrders>(orders));
    await made.StartAsync();
    return made;
}

async Task UntilAsync(string status, HttpStatusCode code)
{
    while (true)
    {
        using HttpResponseMessage response = await http.GetAsync("/health", watchdog);
        if (await response.Content.ReadAsStringAsync(watchdog) == status)
        {
            Check(response.StatusCode == code, status);
            return;
        }
        await Task.Delay(10, watchdog);
    }
}

static void Check(bool condition, string what) => _ = condition ? true : throw new InvalidOperationException("wrong: " + what);

namespace Consumer
{
    public interface IOrders
    {
        event Action<Order> Placed;

        int Place(Order order);

        [WitTypeArguments(typeof(string))]
        Task<T> EchoAsync<T>(T value);
    }

    [MemoryPackable]
    public sealed partial class Order
    {
        public int Id { get; set; }

        public string? What { get; set; }
    }

    internal sealed class Orders : IOrders
    {
        private int count;

        public event Action<Order>? Placed;

        public int Place(Order order)
        {
            Placed?.Invoke(order);
            return Interlocked.Increment(ref count);
        }

        public Task<T> EchoAsync<T>(T value) => Task.FromResult(value);
    }

    [JsonSerializable(typeof(Order))]
    internal sealed partial class Json : JsonSerializerContext;
}
