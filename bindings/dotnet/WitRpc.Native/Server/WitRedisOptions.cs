namespace WitRpc.Native;

/// <summary>How a fleet of servers keeps calls in Redis.</summary>
public sealed class WitRedisOptions
{
    /// <summary>What the names of all keys begin with; another one for each fleet. Default <c>witrpc:</c>.</summary>
    public string Prefix { get; set; } = "witrpc:";

    /// <summary>How long a call counts as running after the last sign of life of its server; at least 100 ms. Default 10 s.</summary>
    public TimeSpan Lease { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>How long an answer is held. Default 10 min.</summary>
    public TimeSpan Hold { get; set; } = TimeSpan.FromMinutes(10);

    /// <summary>How long the numbers of a libwitrpc client's calls are remembered after its last one; not shorter than <see cref="Hold"/>. Default 24 h.</summary>
    public TimeSpan ClientHold { get; set; } = TimeSpan.FromHours(24);

    /// <summary>How long a request to Redis may take; at least 10 ms. Default 5 s.</summary>
    public TimeSpan Timeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>Replicas that must have a record before it counts. Default 0.</summary>
    public int Replicas { get; set; }

    /// <summary>
    /// Whether Redis loses nothing when it is started again or replaced by a replica. Default false: clients then end calls that were on their
    /// way as outcome unknown.
    /// </summary>
    public bool SurvivesRestarts { get; set; }
}
