using Microsoft.Extensions.Diagnostics.HealthChecks;
using WitRpc.Native.DependencyInjection;
using WitRpc.Native.HealthChecks;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Plugs WitRPC clients into health checks.</summary>
public static class WitClientHealthChecksBuilderExtensions
{
    /// <summary>
    /// Reports the connection of a client that was registered with <c>services.AddWitRpcClient(clientName, …)</c>. The data are
    /// <c>clientName</c>, <c>isInitialized</c>, <c>isAuthorized</c>, <c>connectionState</c>, <c>callsInFlight</c>, <c>callsQueued</c>,
    /// <c>reconnects</c>, <c>retries</c> and, where they are known, <c>lastSignOfLifeMs</c>, <c>roundTripMs</c>, <c>lastError</c>.
    /// </summary>
    /// <param name="builder">The health checks.</param>
    /// <param name="clientName">Name of the client.</param>
    /// <param name="name">Name of the check; null = <c>witrpc-client-</c> and the client's name.</param>
    /// <param name="failureStatus">What is reported for a client that is neither connected nor reconnecting; null = Unhealthy.</param>
    /// <param name="tags">Tags of the check.</param>
    /// <param name="timeout">Limit of the check; null = none.</param>
    /// <param name="probeTimeout">Makes it a deep check: with a round trip to the server, within this limit. Null = the state only, without I/O.</param>
    /// <returns>The health checks.</returns>
    public static IHealthChecksBuilder AddWitRpcClient(this IHealthChecksBuilder builder, string clientName, string? name = null, HealthStatus? failureStatus = null, IEnumerable<string>? tags = null, TimeSpan? timeout = null, TimeSpan? probeTimeout = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentException.ThrowIfNullOrEmpty(clientName);
        return builder.Add(new HealthCheckRegistration(
            name ?? $"witrpc-client-{clientName}",
            services => new WitClientHealthCheck(() => Factory(services, clientName).GetClient(clientName), clientName) { ProbeTimeout = probeTimeout },
            failureStatus,
            tags,
            timeout));
    }

    private static IWitClientFactory Factory(IServiceProvider services, string clientName) => services.GetService<IWitClientFactory>()
        ?? throw new InvalidOperationException($"there is no WitRPC client \"{clientName}\" (none is registered): register it with services.AddWitRpcClient(\"{clientName}\", …)");
}
