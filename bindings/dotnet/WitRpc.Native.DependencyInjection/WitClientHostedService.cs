using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace WitRpc.Native.DependencyInjection;

/// <summary>
/// Connects the clients when the host starts, without holding it up: a server that is away must not keep an application
/// from starting, and its health check says how it stands. A client whose first connect is not covered by automatic
/// reconnection is tried again every five seconds. When the host stops, attempts in progress are ended.
/// </summary>
internal sealed partial class WitClientHostedService(WitClientFactory factory, ILogger<WitClientHostedService> logger) : BackgroundService
{
    private static readonly TimeSpan Pause = TimeSpan.FromSeconds(5);

    protected override Task ExecuteAsync(CancellationToken stoppingToken) =>
        Task.WhenAll(factory.AutoConnected.Select(name => ConnectAsync(name, stoppingToken)));

    public override async Task StopAsync(CancellationToken cancellationToken)
    {
        await base.StopAsync(cancellationToken).ConfigureAwait(false);
        foreach (WitClient client in factory.Made(factory.AutoConnected))
        {
            await client.StopReconnectionAsync().ConfigureAwait(false);
        }
    }

    private async Task ConnectAsync(string name, CancellationToken stopping)
    {
        try
        {
            WitClient client = factory.GetClient(name);
            while (client.ConnectionState is not (ReconnectionState.Connected or ReconnectionState.Reconnecting))
            {
                try
                {
                    await client.ConnectAsync(stopping).ConfigureAwait(false);
                    return;
                }
                catch (WitRpcException e) when (e.Code is not (WitErrorCode.Unauthorized or WitErrorCode.Protocol or WitErrorCode.Encryption or WitErrorCode.Certificate or WitErrorCode.Closed))
                {
                    NotConnected(logger, e, name);
                }
                await Task.Delay(Pause, stopping).ConfigureAwait(false);
            }
        }
        catch (OperationCanceledException) when (stopping.IsCancellationRequested)
        {
            // The host stops.
        }
        catch (Exception e)
        {
            Refused(logger, e, name);
        }
    }

    [LoggerMessage(1, LogLevel.Warning, "The WitRPC client {Name} could not connect")]
    private static partial void NotConnected(ILogger logger, Exception error, string name);

    [LoggerMessage(2, LogLevel.Error, "The WitRPC client {Name} can't connect, and is not tried again")]
    private static partial void Refused(ILogger logger, Exception error, string name);
}
