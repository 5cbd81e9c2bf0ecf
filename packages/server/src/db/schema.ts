import type { AlertTables } from './schema/alerts.ts'
import type { ApprovalTables } from './schema/approvals.ts'
import type { AuditTables } from './schema/audit.ts'
import type { AutoSuspensionTables } from './schema/auto-suspension.ts'
import type { ChainTables } from './schema/chain.ts'
import type { CommandLoginTables } from './schema/command-logins.ts'
import type { ContainmentTables } from './schema/containments.ts'
import type { ControlTables } from './schema/control.ts'
import type { DatabaseTables } from './schema/database.ts'
import type { DetectionTables } from './schema/detection.ts'
import type { DrillTables } from './schema/drills.ts'
import type { EnforcementTables } from './schema/enforcement.ts'
import type { EventTables } from './schema/events.ts'
import type { GatewayTables } from './schema/gateway.ts'
import type { HoneypotTables } from './schema/honeypots.ts'
import type { InstanceTables } from './schema/instances.ts'
import type { KeyTables } from './schema/keys.ts'
import type { PeopleTables } from './schema/people.ts'
import type { PolicyTables } from './schema/policies.ts'
import type { RuleTables } from './schema/rules.ts'
import type { SignInTables } from './schema/sign-in.ts'
import type { SuspensionTables } from './schema/suspensions.ts'
import type { TrustTables } from './schema/trust.ts'
import type { ViewTables } from './schema/views.ts'
import type { WitnessTables } from './schema/witnesses.ts'

/**
 * All tables. Each file in schema/ is named after the feature that owns its tables, and only that feature queries them.
 * On every engine times are epoch milliseconds, flags are 0 or 1, and JSON is text.
 */
export interface Schema
  extends AlertTables,
    ApprovalTables,
    AuditTables,
    ChainTables,
    AutoSuspensionTables,
    CommandLoginTables,
    ContainmentTables,
    ControlTables,
    DrillTables,
    EnforcementTables,
    SuspensionTables,
    DatabaseTables,
    DetectionTables,
    EventTables,
    GatewayTables,
    HoneypotTables,
    InstanceTables,
    KeyTables,
    PeopleTables,
    PolicyTables,
    RuleTables,
    SignInTables,
    TrustTables,
    ViewTables,
    WitnessTables {}
