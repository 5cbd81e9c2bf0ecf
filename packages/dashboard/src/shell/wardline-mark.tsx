export const WardlineMark = () => (
  <svg
    viewBox="0 0 20 20"
    width="18"
    height="18"
    fill="none"
    stroke="var(--accent)"
    strokeWidth="1.8"
    strokeLinejoin="round"
    aria-hidden="true"
  >
    <path d="M1 10h4l3-6 4 12 3-6h4" />
  </svg>
)
