import type { Dialect } from '../database.ts'

/** What an alert is about that is no instance, so that alerts of one containment are one problem. */
export const alertSubjects = ({ text }: Dialect['ddl']): string[] => [`alter table alerts add column subject ${text}`]
