namespace WitRpc.Native;

/// <summary>Makes clients.</summary>
public static class WitClientBuilder
{
    /// <summary>Makes a client. It is not connected yet: see <see cref="WitClient.ConnectAsync(CancellationToken)"/>.</summary>
    /// <param name="configure">Sets the options; at least where the server is.</param>
    /// <returns>The client, to be disposed.</returns>
    /// <exception cref="WitRpcException">An option makes no sense.</exception>
    public static WitClient Build(Action<WitClientBuilderOptions> configure)
    {
        ArgumentNullException.ThrowIfNull(configure);
        var options = new WitClientBuilderOptions();
        configure(options);
        return new WitClient(options);
    }
}
