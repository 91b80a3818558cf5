using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>A service and its implementation.</summary>
internal interface IServed
{
    /// <summary>Hands the implementation to the native options; events are raised through the server.</summary>
    void Install(ServerOptionsHandle options, WitServer server);

    /// <summary>Subscribes to the implementation's events.</summary>
    /// <returns>What ends that.</returns>
    IEnumerable<Action> Subscribe(WitServer server);
}

/// <summary>A service and its implementation.</summary>
internal sealed unsafe class Served<T>(T instance, string[] durable) : IServed where T : class
{
    public void Install(ServerOptionsHandle options, WitServer server)
    {
        WitServiceDefinition<T> definition = WitContract<T>.Get().Define();
        nint contract = 0;
        nint implementation = 0;
        try
        {
            int status = NativeMethods.witrpc_contract_from_json(definition.ContractJson, out contract, out nint error);
            WitRpcException.ThrowIfFailed(status, error);
            status = NativeMethods.witrpc_implementation_of(contract, out implementation, out error);
            WitRpcException.ThrowIfFailed(status, error);
            foreach ((string line, Func<T, WitServerCall, ValueTask> run) in definition.Methods)
            {
                // Failing, the function calls destroy all the same.
                nint userData = UserData.Alloc(new Method(instance, line, run, server));
                status = NativeMethods.witrpc_implementation_handle_encoded(implementation, line, &Handler.OnRequest, userData, UserData.Destroy, out error);
                WitRpcException.ThrowIfFailed(status, error);
            }
            foreach (string method in durable)
            {
                status = NativeMethods.witrpc_implementation_durable(implementation, NativeText.Checked(method, nameof(durable)), out error);
                WitRpcException.ThrowIfFailed(status, error);
            }
            WitRpcException.ThrowIfFailed(NativeMethods.witrpc_server_options_serve(options, implementation));
        }
        finally
        {
            NativeMethods.witrpc_implementation_free(implementation);
            NativeMethods.witrpc_contract_free(contract);
        }
    }

    public IEnumerable<Action> Subscribe(WitServer server)
    {
        var raiser = new WitEventRaiser(server, WitContract<T>.Get().Name);
        return [.. WitContract<T>.Get().Define().Events.Select(subscribe => subscribe(instance, raiser))];
    }

    private sealed class Method(T instance, string line, Func<T, WitServerCall, ValueTask> run, WitServer server) : Handler(line, server)
    {
        private protected override ValueTask RunAsync(WitServerCall call) => run(instance, call);
    }
}

/// <summary>Carries out the calls of one method.</summary>
internal abstract class Handler(string line, WitServer server)
{
    private protected abstract ValueTask RunAsync(WitServerCall call);

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    internal static unsafe void OnRequest(void* userData, nint request)
    {
        Handler self = UserData.Get<Handler>(userData);
        // The thread is one of the native library's for blocking work: what the method does before its first await runs
        // here, in the order in which calls arrive.
        _ = self.HandleAsync(request);
    }

    private async Task HandleAsync(nint request)
    {
        WitServerCall? call = null;
        try
        {
            call = new WitServerCall(request, server, line);
            WitServerCall.SetCurrent(call);
            await RunAsync(call).ConfigureAwait(false);
            call.Reply();
        }
        catch (Exception e)
        {
            if (e is not WitArgumentException)
            {
                Log.MethodFailed(server.Logger, e, line);
            }
            if (call is null)
            {
                NativeMethods.witrpc_request_free(request);
            }
            else
            {
                call.Fail(e);
            }
        }
        finally
        {
            WitServerCall.SetCurrent(null);
        }
    }
}
