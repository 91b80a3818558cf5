using Microsoft.Extensions.Diagnostics.HealthChecks;
using WitRpc.Native.DependencyInjection;

namespace WitRpc.Native.HealthChecks;

/// <summary>
/// Says how a client's connection stands: Healthy if it is connected and authorised, Degraded while it reconnects, else the
/// <c>failureStatus</c> of the registration (Unhealthy if none is given). Does no I/O, unless <see cref="ProbeTimeout"/> is set.
/// </summary>
internal sealed class WitClientHealthCheck(Func<WitClient> getClient, string clientName) : IHealthCheck
{
    /// <summary>Limit of a round trip to the server; null = none is made.</summary>
    internal TimeSpan? ProbeTimeout { get; init; }

    public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        HealthStatus failure = context.Registration.FailureStatus;
        try
        {
            WitClient client = getClient();
            ReconnectionState state = client.ConnectionState;
            Dictionary<string, object> data = Describe(client, state);
            return state switch
            {
                ReconnectionState.Connected when ProbeTimeout is { } limit => await ProbeAsync(client, limit, failure, data).ConfigureAwait(false),
                ReconnectionState.Connected => HealthCheckResult.Healthy($"The client \"{clientName}\" is connected.", data),
                ReconnectionState.Reconnecting => HealthCheckResult.Degraded($"The client \"{clientName}\" is reconnecting.", client.LastFailure, data),
                _ => new HealthCheckResult(failure, $"The client \"{clientName}\" is {(state == ReconnectionState.Failed ? "not connected, and has given up" : "not connected")}.", client.LastFailure, data),
            };
        }
        catch (Exception e) when (e is not OperationCanceledException)
        {
            return new HealthCheckResult(failure, $"The client \"{clientName}\" can't be checked: {e.Message}", e, new Dictionary<string, object> { ["clientName"] = clientName });
        }
    }

    private static Dictionary<string, object> Describe(WitClient client, ReconnectionState state, string clientName)
    {
        WitClientStatistics statistics = client.Statistics;
        bool isConnected = state == ReconnectionState.Connected;
        var data = new Dictionary<string, object>
        {
            ["clientName"] = clientName,
            ["isInitialized"] = isConnected,
            ["isAuthorized"] = isConnected,
            ["connectionState"] = state.ToString(),
            ["callsInFlight"] = statistics.CallsInFlight,
            ["callsQueued"] = statistics.CallsQueued,
            ["reconnects"] = statistics.Reconnects,
            ["retries"] = statistics.Retries,
        };
        if (statistics.Silence is { } silence)
        {
            data["lastSignOfLifeMs"] = (long)silence.TotalMilliseconds;
        }
        if (statistics.RoundTrip is { } roundTrip)
        {
            data["roundTripMs"] = roundTrip.TotalMilliseconds;
        }
        if (client.LastFailure is { } error)
        {
            data["lastError"] = error.Message;
        }
        return data;
    }

    private Dictionary<string, object> Describe(WitClient client, ReconnectionState state) => Describe(client, state, clientName);

    private async Task<HealthCheckResult> ProbeAsync(WitClient client, TimeSpan limit, HealthStatus failure, Dictionary<string, object> data)
    {
        try
        {
            data["roundTripMs"] = (await client.ProbeAsync(limit).ConfigureAwait(false)).TotalMilliseconds;
            return HealthCheckResult.Healthy($"The client \"{clientName}\" is connected, and the server answers.", data);
        }
        catch (WitRpcException e) when (e.Code == WitErrorCode.Timeout && client.Statistics.CallsInFlight > 0)
        {
            // A .NET server answers calls one after the other: those that run held this one up, which says nothing.
            data["probe"] = "no verdict: the server is busy with calls of this client";
            return HealthCheckResult.Healthy($"The client \"{clientName}\" is connected, and has calls under way.", data);
        }
        catch (WitRpcException e)
        {
            data["lastError"] = e.Message;
            return new HealthCheckResult(failure, $"The client \"{clientName}\" is connected, but the server does not answer.", e, data);
        }
    }
}
