#pragma warning disable CS1717, IDE0039, IDE0079
using Microsoft.Extensions.DependencyInjection;
using WitRpc.Native;

namespace WitRpc.Native.Tests;

/// <summary>The service of the page.</summary>
public interface IMyService
{
    string GetStatus();

    List<string> ListItems();

    List<string> GetOrders();
}

/// <summary>
/// The code of WitRPC's page "Resilience & Health Checks", letter by letter: only what stands around each piece, and the
/// namespace above, is ours. Where the page is at hand, a test compares the two.
/// </summary>
internal static class ResiliencePage
{
    internal static int Refreshed;

    internal static WitClient Default()
    {
// <page>
var client = WitClientBuilder.Build(options =>
{
    options.WithTcp("server.example.com", 5000);
    options.WithJson();
    options.WithEncryption();
    options.WithAutoReconnect();   // defaults
});
// </page>
        return client;
    }

    internal static void Configured(WitClientBuilderOptions options)
    {
// <page>
options.WithAutoReconnect(reconnect =>
{
    reconnect.MaxAttempts = 10;                        // 0 = unlimited
    reconnect.InitialDelay = TimeSpan.FromSeconds(1);
    reconnect.MaxDelay = TimeSpan.FromMinutes(2);
    reconnect.BackoffMultiplier = 2.0;
    reconnect.ReconnectOnDisconnect = true;            // also reconnect when the server closes the connection
});
// </page>
    }

    internal static void Callbacks(WitClientBuilderOptions options)
    {
// <page>
options.WithAutoReconnect(reconnect =>
{
    reconnect.OnReconnecting = (attempt, delay) =>
        Console.WriteLine($"Reconnection attempt {attempt}, waiting {delay}...");

    reconnect.OnReconnected = () =>
    {
        Console.WriteLine("Reconnected.");
        // Refresh state the client may have missed while offline
    };

    reconnect.OnReconnectionFailed = lastException =>
    {
        Console.WriteLine($"Reconnection failed: {lastException?.Message}");
        // Alert the user, switch to offline mode
    };
});
// </page>
    }

    internal static string State(WitClient client)
    {
// <page>
switch (client.ConnectionState)
{
    case ReconnectionState.Connected:     /* normal operation */          break;
    case ReconnectionState.Reconnecting:  /* attempts in progress */      break;
    case ReconnectionState.Disconnected:  /* idle, not reconnecting */    break;
    case ReconnectionState.Failed:        /* attempts exhausted */        break;
}
// </page>
        return client.ConnectionState.ToString();
    }

    internal static async Task Stop(WitClient client)
    {
// <page>
await client.StopReconnectionAsync()
// </page>
        ;
    }

    internal static void Retries(WitClientBuilderOptions options)
    {
// <page>
options.WithRetryPolicy(retry =>
{
    retry.MaxRetries = 3;
    retry.InitialDelay = TimeSpan.FromMilliseconds(500);
    retry.MaxDelay = TimeSpan.FromSeconds(5);
    retry.BackoffType = BackoffType.Exponential;

    // Declare what is safe to re-execute:
    retry.MarkIdempotent(nameof(IMyService.GetStatus), nameof(IMyService.ListItems));
    // or, deliberately: retry.RetryAllMethods = true;
});
// </page>
    }

    internal static void Health(Builder builder)
    {
// <page>
builder.Services.AddHealthChecks()
    .AddWitRpcClient("MainClient");   // name of the DI-registered client
// </page>
    }

    internal static WitClient Together(string token)
    {
// <page>
var client = WitClientBuilder.Build(options =>
{
    options.WithTcp("server.example.com", 5000);
    options.WithMemoryPack();
    options.WithEncryption();
    options.WithAccessToken(token);

    options.WithAutoReconnect(r =>
    {
        r.MaxAttempts = 0;                            // keep trying
        r.OnReconnected = () => RefreshApplicationState();
    });

    options.WithRetryPolicy(r =>
    {
        r.MaxRetries = 3;
        r.BackoffType = BackoffType.Exponential;
        r.MarkIdempotent(nameof(IMyService.GetOrders), nameof(IMyService.GetStatus));
    });
});
// </page>
        return client;
    }

    /// <summary>Names that stand in the page's text.</summary>
    internal static void Named(WitClientBuilderOptions options) => options.WithoutAutoReconnect();

    internal static void Named(RetryOptions retry)
    {
        retry.RetryAllMethods = true;
        retry.RetryableStatuses.Add(CommunicationStatus.InternalServerError);
        retry.RetryOn<TimeoutException>();
        Action<Exception?, int, TimeSpan> onRetry = (_, _, _) => { };
        retry.OnRetry = onRetry;
        retry.BackoffType = BackoffType.Fixed;
        retry.BackoffType = BackoffType.Linear;
    }

    private static void RefreshApplicationState() => Interlocked.Increment(ref Refreshed);

    /// <summary>What the page calls a builder.</summary>
    internal sealed class Builder
    {
        internal IServiceCollection Services { get; } = new ServiceCollection();
    }
}
