using System.Buffers;
using System.Text.Json.Serialization.Metadata;
using Google.Protobuf;

namespace WitRpc.Native;

/// <summary>
/// Google.Protobuf, as WitRPC uses it: generated messages as their bytes, all else as JSON. A message with nothing in it has no
/// bytes, and arrives as null, as it does with WitRPC.
/// </summary>
internal sealed class GoogleProtobufCodec(WitCodec json) : WitCodec
{
    public override int NativeNumber => 4;

    public override void Write<T>(IBufferWriter<byte> output, T value)
    {
        if (value is IMessage message)
        {
            message.WriteTo(output);
        }
        else
        {
            json.Write(output, value);
        }
    }

    public override T? Read<T>(ReadOnlySpan<byte> bytes) where T : default
    {
        if (!typeof(IMessage).IsAssignableFrom(typeof(T)))
        {
            return json.Read<T>(bytes);
        }
        T value = Activator.CreateInstance<T>();
        ((IMessage)value!).MergeFrom(bytes);
        return value;
    }
}

/// <summary>Chooses Google.Protobuf for clients and servers.</summary>
public static class WitGoogleProtobufExtensions
{
    /// <summary>Generated messages travel as their bytes, all else as JSON. The server must be set alike.</summary>
    /// <param name="options">The options.</param>
    /// <param name="resolver">Knows the types that travel as JSON, as for <see cref="WitClientBuilderOptions.WithJson"/>.</param>
    /// <returns>The same.</returns>
    public static WitClientBuilderOptions WithGoogleProtobuf(this WitClientBuilderOptions options, IJsonTypeInfoResolver? resolver = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        return options.WithParametersSerializer(new GoogleProtobufCodec(WitCodec.Json(resolver)));
    }

    /// <summary>Generated messages travel as their bytes, all else as JSON. Clients must be set alike.</summary>
    /// <param name="options">The options.</param>
    /// <param name="resolver">Knows the types that travel as JSON, as for <see cref="WitServerBuilderOptions.WithJson"/>.</param>
    /// <returns>The same.</returns>
    public static WitServerBuilderOptions WithGoogleProtobuf(this WitServerBuilderOptions options, IJsonTypeInfoResolver? resolver = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        return options.WithParametersSerializer(new GoogleProtobufCodec(WitCodec.Json(resolver)));
    }
}
