// Runs before the first paint, so that the default theme does not flash. The CSP forbids it inline.
try {
  const theme = localStorage.getItem('wardline.theme')
  if (theme === 'dark' || theme === 'light') document.documentElement.style.colorScheme = theme
} catch {
  // The browser blocks storage: the theme is that of the system.
}
