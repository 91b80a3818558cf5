using System.Runtime.InteropServices;
using System.Text;

namespace WitRpc.Native.Interop;

/// <summary>Text that crosses the border.</summary>
internal static unsafe class NativeText
{
    /// <summary>Copies NUL-terminated UTF-8; null for NULL.</summary>
    internal static string? Read(byte* text) => Marshal.PtrToStringUTF8((nint)text);

    /// <summary>Copies and frees a text buffer.</summary>
    internal static string Take(nint buffer)
    {
        string text = Read(NativeMethods.witrpc_buffer_text(buffer)) ?? "";
        NativeMethods.witrpc_buffer_free(buffer);
        return text;
    }

    /// <summary>Text that C can hold: a NUL within it would cut it off.</summary>
    internal static string Checked(string text, string name)
    {
        ArgumentNullException.ThrowIfNull(text, name);
        return text.Contains('\0') ? throw new ArgumentException("text with a NUL character in it can't be passed on", name) : text;
    }

    internal static byte[] Utf8(string text) => Encoding.UTF8.GetBytes(text);
}
