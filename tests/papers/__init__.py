"""The queries printed in the papers."""
