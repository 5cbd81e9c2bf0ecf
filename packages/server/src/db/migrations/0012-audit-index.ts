/** Finds kills and resumes, and the entries of one target, without scanning the log. */
export const auditIndex = (): string[] => [
  `create index audit_log_control on audit_log (seq) where action in ('instance.suspend', 'instance.resume')`,
  'create index audit_log_target on audit_log (target, seq)',
]
