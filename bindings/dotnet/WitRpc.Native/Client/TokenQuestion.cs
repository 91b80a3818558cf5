using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Microsoft.Extensions.Logging;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>Brings the native library's questions for a token to the user's provider, and its answers back.</summary>
internal sealed class TokenQuestion
{
    private readonly Func<CancellationToken, Task<string>> provider;
    private readonly TimeSpan limit;
    private readonly ILogger logger;

    private TokenQuestion(Func<CancellationToken, Task<string>> provider, TimeSpan limit, ILogger logger) => (this.provider, this.limit, this.logger) = (provider, limit, logger);

    internal static unsafe void Register(ClientOptionsHandle options, Func<CancellationToken, Task<string>> provider, TimeSpan limit, ILogger logger)
    {
        nint userData = UserData.Alloc(new TokenQuestion(provider, limit, logger));
        WitRpcException.ThrowIfFailed(NativeMethods.witrpc_client_options_token_provider_async(options, &OnAsked, userData, UserData.Destroy));
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static unsafe void OnAsked(void* userData, nint answer)
    {
        TokenQuestion question = UserData.Get<TokenQuestion>(userData);
        _ = Task.Run(() => question.AskAsync(answer));
    }

    private async Task AskAsync(nint answer)
    {
        try
        {
            using var late = limit > TimeSpan.Zero && limit < TimeSpan.FromDays(1) ? new CancellationTokenSource(limit) : new CancellationTokenSource();
            string token = await provider(late.Token).ConfigureAwait(false) ?? throw new InvalidOperationException("the token provider gave null");
            Answer(answer, NativeText.Utf8(token));
        }
        catch (Exception e)
        {
            Log.TokenProviderFailed(logger, e);
            _ = NativeMethods.witrpc_token_fail(answer, e.Message.Replace('\0', '\uFFFD'));
        }
    }

    private static unsafe void Answer(nint answer, byte[] token)
    {
        fixed (byte* p = token)
        {
            _ = NativeMethods.witrpc_token_answer(answer, p, (nuint)token.Length); // too late is nobody's fault
        }
    }
}
