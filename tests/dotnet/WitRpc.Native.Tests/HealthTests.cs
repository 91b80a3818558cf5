using System.Net;
using System.Text.Json;
using Demo;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using WitRpc.Native.DependencyInjection;

namespace WitRpc.Native.Tests;

/// <summary>Dependency injection and health checks, and the sample application as a process, asked over HTTP.</summary>
public class HealthTests
{
    [Theory]
    [InlineData("witrpc")]
    [InlineData("peer")]
    public async Task PuttingItTogether(string kind)
    {
        int port = Support.FreePort();
        string[] security = ["--codec", "memorypack", "--encrypt", "--token", "secret"];
        async Task<OtherProcess> ServeAsync() => kind == "peer"
            ? (await OtherProcess.PeerAsync($"tcp:{port}", security)).Server
            : (await OtherProcess.DemoAsync($"tcp://127.0.0.1:{port}", security)).Server;
        OtherProcess server = await ServeAsync();
        string sample = Path.Combine(Support.Root, "examples", "dotnet", "PuttingItTogether");
        (OtherProcess app, string url) = await OtherProcess.StartAsync(
            Environment.ProcessPath is { } p && Path.GetFileNameWithoutExtension(p) == "dotnet" ? p : "dotnet",
            "Now listening on: ",
            Path.Combine(sample, "bin", Support.Configuration, "net10.0", "PuttingItTogether.dll"),
            "--urls=http://127.0.0.1:0", "--WitRpc:Host=127.0.0.1", $"--WitRpc:Port={port}", "--WitRpc:Token=secret");
        await using (app)
        {
            using var http = new HttpClient { BaseAddress = new Uri(url), Timeout = Support.Watchdog };
            JsonElement report = await UntilAsync(http, "Healthy");
            JsonElement check = report.GetProperty("checks").GetProperty("witrpc-client-MainClient");
            JsonElement data = check.GetProperty("Data");
            Assert.Equal("MainClient", data.GetProperty("clientName").GetString());
            Assert.True(data.GetProperty("isInitialized").GetBoolean() && data.GetProperty("isAuthorized").GetBoolean());
            Assert.Equal("Connected", data.GetProperty("connectionState").GetString());
            Assert.Equal("ready", check.GetProperty("Tags")[0].GetString());
            Assert.Equal("5", await http.GetStringAsync("/add?a=2&b=3"));
            JsonElement deep = await ReadAsync(http, "/health/deep", HttpStatusCode.OK);
            Assert.True(deep.GetProperty("checks").GetProperty("deep").GetProperty("Data").GetProperty("roundTripMs").GetDouble() > 0);

            await server.KillAsync(); // the service dies
            report = await UntilAsync(http, "Degraded");
            data = report.GetProperty("checks").GetProperty("witrpc-client-MainClient").GetProperty("Data");
            Assert.Equal("Reconnecting", data.GetProperty("connectionState").GetString());
            Assert.False(data.GetProperty("isAuthorized").GetBoolean());
            Assert.NotEqual("", data.GetProperty("lastError").GetString());
            Assert.Equal("Healthy", await http.GetStringAsync("/alive"));
            Task<string> waiting = http.GetStringAsync("/add?a=20&b=3"); // waits for the link

            await server.DisposeAsync();
            server = await ServeAsync(); // and returns
            Assert.Equal("23", await waiting.InTime());
            report = await UntilAsync(http, "Healthy");
            Assert.Equal(1, report.GetProperty("checks").GetProperty("witrpc-client-MainClient").GetProperty("Data").GetProperty("reconnects").GetInt32());
            await Support.Until(() => http.GetStringAsync("/refreshed").Result == "1", "the application state is refreshed");
        }
        await server.DisposeAsync();
    }

    [Fact]
    public async Task StatesAndFailureStatus()
    {
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IEcho>(new EchoService()));
        await server.StartAsync();
        var services = new ServiceCollection();
        services.AddWitRpcClient("MainClient", o => o.WithEndpoint(server.Endpoints[0]), autoConnect: false);
        services.AddHealthChecks()
            .AddWitRpcClient("MainClient")
            .AddWitRpcClient("MainClient", "as told", HealthStatus.Degraded, ["a", "b"])
            .AddWitRpcClient("MainClient", "deep", probeTimeout: TimeSpan.FromSeconds(30))
            .AddWitRpcClient("Nobody");
        await using ServiceProvider provider = services.BuildServiceProvider();
        var health = provider.GetRequiredService<HealthCheckService>();
        HealthReport report = await health.CheckHealthAsync();
        Assert.Equal(HealthStatus.Unhealthy, report.Entries["witrpc-client-MainClient"].Status);
        Assert.Equal(HealthStatus.Degraded, report.Entries["as told"].Status);
        Assert.Equal(["a", "b"], report.Entries["as told"].Tags);
        Assert.Equal("Disconnected", report.Entries["as told"].Data["connectionState"]);
        Assert.Contains("Nobody", Assert.IsType<InvalidOperationException>(report.Entries["witrpc-client-Nobody"].Exception).Message);
        await provider.GetRequiredService<IWitClientFactory>().GetClient("MainClient").ConnectAsync().InTime();
        report = await health.CheckHealthAsync();
        Assert.All(["witrpc-client-MainClient", "as told", "deep"], name => Assert.Equal(HealthStatus.Healthy, report.Entries[name].Status));
        Assert.Equal(true, report.Entries["deep"].Data["isInitialized"]);
        Assert.IsType<double>(report.Entries["deep"].Data["roundTripMs"]);
    }

    [Fact]
    public async Task OptionsFromConfigurationKeyedServicesAndHostedConnect()
    {
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IEcho>(new EchoService()).WithAccessToken("secret"));
        await server.StartAsync();
        HostApplicationBuilder builder = Host.CreateEmptyApplicationBuilder(null);
        builder.Configuration.AddInMemoryCollection(new Dictionary<string, string?>
        {
            ["WitRpc:MainClient:Endpoint"] = server.Endpoints[0],
            ["WitRpc:MainClient:AccessToken"] = "secret",
            ["WitRpc:MainClient:Timeout"] = "00:00:07",
            ["WitRpc:MainClient:AutoReconnect:MaxAttempts"] = "0",
            ["WitRpc:MainClient:AutoReconnect:InitialDelay"] = "00:00:00.050",
            ["WitRpc:MainClient:RetryPolicy:BackoffType"] = "Linear",
            ["WitRpc:MainClient:RetryPolicy:IdempotentMethods:0"] = "Add",
        });
        builder.Services.AddWitRpcClient("MainClient", builder.Configuration.GetSection("WitRpc:MainClient"));
        builder.Services.AddWitRpcService<IEcho>("MainClient");
        using (IHost host = builder.Build())
        {
            await host.StartAsync().InTime();
            WitClient client = host.Services.GetRequiredKeyedService<WitClient>("MainClient");
            await client.WaitForStateAsync(ReconnectionState.Connected).InTime();
            Assert.Same(client, host.Services.GetRequiredService<IWitClientFactory>().GetClient("MainClient"));
            Assert.Same(client, host.Services.GetRequiredService<WitClient>());
            Assert.Equal(5, host.Services.GetRequiredService<IEcho>().Add(2, 3));
            Assert.Throws<InvalidOperationException>(() => host.Services.GetRequiredService<IWitClientFactory>().GetClient("Other"));
            await host.StopAsync().InTime();
        }
        await Support.Until(() => server.Statistics.Connections == 0, "the container disposes the client");
    }

    [Theory]
    [InlineData("Endpoint", "tcp://127.0.0.1:1", "AutoReconect:MaxAttempts", "3", "AutoReconect")]
    [InlineData("Endpoint", "tcp://127.0.0.1:1", "AutoReconnect:MaxAttempts", "lots", "WitRpc:MainClient:AutoReconnect:MaxAttempts")]
    [InlineData("Encryption", "true", "Timeout", "00:00:07", "\"WitRpc:MainClient\" has neither Endpoint nor Endpoints")]
    [InlineData("../Other", "", "../Another", "", "\"WitRpc:MainClient\" is missing")]
    public async Task ConfigurationThatIsWrongSaysWhere(string key, string value, string otherKey, string otherValue, string text)
    {
        static string Full(string name) => name.StartsWith("../", StringComparison.Ordinal) ? "WitRpc:" + name[3..] : "WitRpc:MainClient:" + name;
        IConfiguration configuration = new ConfigurationBuilder().AddInMemoryCollection(new Dictionary<string, string?> { [Full(key)] = value, [Full(otherKey)] = otherValue }).Build();
        var services = new ServiceCollection();
        services.AddWitRpcClient("MainClient", configuration.GetSection("WitRpc:MainClient"));
        await using ServiceProvider provider = services.BuildServiceProvider();
        Assert.Contains(text, Assert.Throws<InvalidOperationException>(() => provider.GetRequiredKeyedService<WitClient>("MainClient")).Message);
    }

    [Fact]
    public async Task AHostWithAClientWhoseOptionsAreWrongSaysSoAndRuns()
    {
        var logger = new MemoryLogger();
        HostApplicationBuilder builder = Host.CreateEmptyApplicationBuilder(null);
        builder.Logging.Services.AddSingleton<ILoggerProvider>(new MemoryLoggerProvider(logger));
        builder.Services.AddWitRpcClient("MainClient", builder.Configuration.GetSection("WitRpc:MainClient"));
        using IHost host = builder.Build();
        await host.StartAsync().InTime();
        await Support.Until(() => logger.Lines.Any(l => l.Level == LogLevel.Error && l.Error?.Message.Contains("\"WitRpc:MainClient\" is missing") == true), "it is said");
        await host.StopAsync().InTime();
    }

    [Fact]
    public async Task AHealthCheckWithoutAnyClientSaysWhatIsMissing()
    {
        var services = new ServiceCollection();
        services.AddLogging().AddHealthChecks().AddWitRpcClient("MainClient");
        await using ServiceProvider provider = services.BuildServiceProvider();
        HealthReportEntry entry = (await provider.GetRequiredService<HealthCheckService>().CheckHealthAsync()).Entries.Single().Value;
        Assert.Equal((HealthStatus.Unhealthy, "MainClient"), (entry.Status, entry.Data["clientName"]));
        Assert.Contains("services.AddWitRpcClient(\"MainClient\"", entry.Description);
    }

    private static async Task<JsonElement> UntilAsync(HttpClient http, string status)
    {
        JsonElement report = default;
        await Support.Until(
            () =>
            {
                report = ReadAsync(http, "/health", null).Result;
                return report.GetProperty("status").GetString() == status;
            },
            "health becomes " + status);
        return report;
    }

    private static async Task<JsonElement> ReadAsync(HttpClient http, string path, HttpStatusCode? wanted)
    {
        using HttpResponseMessage response = await http.GetAsync(path);
        if (wanted is { } code)
        {
            Assert.Equal(code, response.StatusCode);
        }
        return JsonSerializer.Deserialize<JsonElement>(await response.Content.ReadAsStringAsync());
    }
}
