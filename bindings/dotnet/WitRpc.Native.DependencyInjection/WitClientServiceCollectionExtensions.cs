using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using WitRpc.Native;
using WitRpc.Native.DependencyInjection;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Registers WitRPC clients by name.</summary>
public static class WitClientServiceCollectionExtensions
{
    /// <summary>
    /// Registers a client. It is given by <see cref="IWitClientFactory"/> and as a keyed service (<c>[FromKeyedServices("MainClient")]
    /// WitClient</c>); the first one that is registered also as <see cref="WitClient"/> itself. It logs to the container's logging.
    /// </summary>
    /// <param name="services">The services.</param>
    /// <param name="name">The client's name.</param>
    /// <param name="configure">Sets its options. Several registrations of one name add up.</param>
    /// <param name="autoConnect">Connects it when the host starts, without holding that up.</param>
    /// <returns>The services.</returns>
    public static IServiceCollection AddWitRpcClient(this IServiceCollection services, string name, Action<WitClientBuilderOptions> configure, bool autoConnect = true)
    {
        ArgumentNullException.ThrowIfNull(configure);
        return services.AddWitRpcClient(name, (_, options) => configure(options), autoConnect);
    }

    /// <summary>The same with options that need other services.</summary>
    /// <param name="services">The services.</param>
    /// <param name="name">The client's name.</param>
    /// <param name="configure">Sets its options.</param>
    /// <param name="autoConnect">As above.</param>
    /// <returns>The services.</returns>
    public static IServiceCollection AddWitRpcClient(this IServiceCollection services, string name, Action<IServiceProvider, WitClientBuilderOptions> configure, bool autoConnect = true)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentException.ThrowIfNullOrEmpty(name);
        ArgumentNullException.ThrowIfNull(configure);
        services.AddSingleton(new WitClientRegistration(name, configure, autoConnect));
        services.TryAddSingleton(s => new WitClientFactory(s, s.GetServices<WitClientRegistration>()));
        services.TryAddSingleton<IWitClientFactory>(s => s.GetRequiredService<WitClientFactory>());
        services.TryAddKeyedSingleton(name, (s, _) => s.GetRequiredService<IWitClientFactory>().GetClient(name));
        services.TryAddSingleton(s => s.GetRequiredService<IWitClientFactory>().GetClient(name));
        services.AddLogging();
        if (!services.Any(s => s.ServiceType == typeof(WitClientHostedService)))
        {
            services.AddSingleton(s => new WitClientHostedService(s.GetRequiredService<WitClientFactory>(), s.GetRequiredService<ILogger<WitClientHostedService>>()));
            services.AddSingleton<IHostedService>(s => s.GetRequiredService<WitClientHostedService>());
        }
        return services;
    }

    /// <summary>
    /// The same with options from configuration (<see cref="WitClientSettings"/>), as <c>configuration.GetSection("WitRpc:MainClient")</c>.
    /// A key that means nothing is an error when the client is made.
    /// </summary>
    /// <param name="services">The services.</param>
    /// <param name="name">The client's name.</param>
    /// <param name="configuration">Where the options are.</param>
    /// <param name="configure">Sets what configuration can't hold, after it: codec, callbacks, token provider.</param>
    /// <param name="autoConnect">As above.</param>
    /// <returns>The services.</returns>
    public static IServiceCollection AddWitRpcClient(this IServiceCollection services, string name, IConfiguration configuration, Action<WitClientBuilderOptions>? configure = null, bool autoConnect = true)
    {
        ArgumentNullException.ThrowIfNull(configuration);
        return services.AddWitRpcClient(
            name,
            (_, options) =>
            {
                var settings = new WitClientSettings();
                configuration.Bind(settings, binder => binder.ErrorOnUnknownConfiguration = true);
                if (settings.Endpoint is null && settings.Endpoints.Count == 0 && configure is null && configuration is IConfigurationSection section)
                {
                    throw new InvalidOperationException($"the WitRPC client \"{name}\" has no endpoint: the configuration section \"{section.Path}\" {(section.Exists() ? "has neither Endpoint nor Endpoints" : "is missing")}");
                }
                settings.Apply(options);
                configure?.Invoke(options);
            },
            autoConnect);
    }

    /// <summary>Registers a typed proxy of a named client as <typeparamref name="T"/>.</summary>
    /// <typeparam name="T">The interface of the service, named itself: its code is made when your program is compiled.</typeparam>
    /// <param name="services">The services.</param>
    /// <param name="clientName">The client's name.</param>
    /// <returns>The services.</returns>
    public static IServiceCollection AddWitRpcService<T>(this IServiceCollection services, string clientName) where T : class
    {
        ArgumentNullException.ThrowIfNull(services);
        return services.AddSingleton(s => s.GetRequiredService<IWitClientFactory>().GetClient(clientName).GetService<T>());
    }
}
