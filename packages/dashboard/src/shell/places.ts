/** Screens that require sign-in, in navigation order; `key` follows `g`. */
export const places = [
  { to: '/', name: 'Overview', key: 'o' },
  { to: '/fleet', name: 'Fleet', key: 'f' },
  { to: '/containments', name: 'Containments', key: 'n' },
  { to: '/events', name: 'Events', key: 'e' },
  { to: '/decoys', name: 'Decoys', key: 'd' },
  { to: '/policies', name: 'Policies', key: 'p' },
  { to: '/approvals', name: 'Approvals', key: 'v' },
  { to: '/rules', name: 'Rules', key: 'r' },
  { to: '/alerts', name: 'Alerts', key: 'a' },
  { to: '/trust', name: 'Trust', key: 't' },
  { to: '/incidents', name: 'Incidents', key: 'b' },
  { to: '/audit', name: 'Audit', key: 'u' },
  { to: '/keys', name: 'Keys', key: 'k' },
  { to: '/people', name: 'People', key: 'l' },
  { to: '/connect', name: 'Connect', key: 'c' },
  { to: '/settings', name: 'Settings', key: 'i' },
] as const

/** Shown on an unattended display, so it is not in the navigation. */
export const wallboard = { to: '/wallboard', name: 'Wallboard', key: 'w' } as const
