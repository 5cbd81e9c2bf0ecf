import type { Dialect } from '../database.ts'

/** Subject of an alert that is not an instance, so that alerts of one containment are grouped. */
export const alertSubjects = ({ text }: Dialect['ddl']): string[] => [`alter table alerts add column subject ${text}`]
