/** The screens behind the sign-in, in the order of the navigation; `key` comes after `g`. */
export const places = [
  { to: '/', name: 'Overview', key: 'o' },
  { to: '/fleet', name: 'Fleet', key: 'f' },
  { to: '/events', name: 'Events', key: 'e' },
  { to: '/decoys', name: 'Decoys', key: 'd' },
  { to: '/alerts', name: 'Alerts', key: 'a' },
  { to: '/audit', name: 'Audit', key: 'u' },
  { to: '/trust', name: 'Trust', key: 't' },
  { to: '/keys', name: 'Keys', key: 'k' },
  { to: '/connect', name: 'Connect', key: 'c' },
] as const
