// A web application on a WitRPC service, as it would run in production: a named client with encryption, token, automatic
// reconnection and retries, and a health endpoint that shows how its connection stands.
//
//   witrpc serve --demo --codec memorypack --encrypt --token secret tcp://127.0.0.1:5100
//   dotnet run -- --WitRpc:Host=127.0.0.1 --WitRpc:Port=5100 --WitRpc:Token=secret
//   curl localhost:5000/health
using System.Text.Json;
using Demo;
using Microsoft.AspNetCore.Diagnostics.HealthChecks;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using WitRpc.Native;

var builder = WebApplication.CreateBuilder(args);
string host = builder.Configuration["WitRpc:Host"] ?? "localhost";
int port = builder.Configuration.GetValue("WitRpc:Port", 5100);
string token = builder.Configuration["WitRpc:Token"] ?? "";
int refreshed = 0;

builder.Services.AddWitRpcClient("MainClient", (services, options) =>
{
    options.WithTcp(host, port);
    options.WithMemoryPack();
    options.WithEncryption();
    options.WithAccessToken(token);

    options.WithAutoReconnect(r =>
    {
        r.MaxAttempts = 0;                            // keep trying
        r.OnReconnected = () => RefreshApplicationState(services);
    });

    options.WithRetryPolicy(r =>
    {
        r.MaxRetries = 3;
        r.BackoffType = BackoffType.Exponential;
        r.MarkIdempotent(nameof(IEcho.Add), nameof(IEcho.Ping));
    });
});
builder.Services.AddWitRpcService<IEcho>("MainClient");

builder.Services.AddHealthChecks()
    .AddWitRpcClient("MainClient", tags: ["ready"])
    .AddWitRpcClient("MainClient", name: "deep", failureStatus: HealthStatus.Degraded, tags: ["deep"], probeTimeout: TimeSpan.FromSeconds(2));

var app = builder.Build();
app.MapGet("/add", (int a, int b, IEcho echo) => echo.Add(a, b));
app.MapGet("/count", (IEcho echo) => echo.Count());
app.MapPost("/count/{by}", (int by, IEcho echo) => echo.CountUp(by));
app.MapGet("/refreshed", () => refreshed);
// Alive as long as the process answers: a service that is away is no reason to be restarted.
app.MapHealthChecks("/alive", new HealthCheckOptions { Predicate = _ => false });
app.MapHealthChecks("/health", new HealthCheckOptions { Predicate = check => check.Tags.Contains("ready"), ResponseWriter = WriteAsync });
app.MapHealthChecks("/health/deep", new HealthCheckOptions { Predicate = check => check.Tags.Contains("deep"), ResponseWriter = WriteAsync });
await app.RunAsync();

void RefreshApplicationState(IServiceProvider services)
{
    // Whatever may have been missed while the service was away is fetched here; calls are allowed.
    services.GetRequiredService<IEcho>().Ping();
    Interlocked.Increment(ref refreshed);
}

static Task WriteAsync(HttpContext context, HealthReport report) => context.Response.WriteAsync(JsonSerializer.Serialize(new
{
    status = report.Status.ToString(),
    checks = report.Entries.ToDictionary(e => e.Key, e => new { status = e.Value.Status.ToString(), e.Value.Description, e.Value.Data, e.Value.Tags }),
}));
