"""Working doubles and small servers that tests share."""
