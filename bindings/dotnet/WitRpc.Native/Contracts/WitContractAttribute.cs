namespace WitRpc.Native;

/// <summary>
/// Has the code of proxy and dispatcher made in the assembly that declares the interface. Needed only where no call of
/// <c>GetService&lt;T&gt;()</c> or <c>WithService&lt;T&gt;(…)</c> names the interface itself.
/// </summary>
[AttributeUsage(AttributeTargets.Interface)]
public sealed class WitContractAttribute : Attribute;
